"""Mistakes on the command line of the pipeline: found before Spark is started."""

import pytest
from typer.testing import CliRunner

from kstreams_worker.cli import app
from kstreams_worker.errors import UsageError


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["produce"], "without end"),
        (["produce", "--records", "1", "--rate", "-2"], "-2"),
        (["produce", "--records", "1", "--set", "bootstrap.server=x:1"], "bootstrap.servers"),
        (["verify", "--check", "nothing"], "count, orders"),
        (["verify", "--topic", "totals=x"], "customer-totals"),
        (["verify", "--parameter", "large=1"], "large_amount"),
    ],
    ids=str,
)
def test_mistake_is_one_line_with_exit_code_2(arguments: list[str], words: str) -> None:
    """And names what would be right."""
    result = CliRunner().invoke(app, ["pipeline", *arguments])
    assert isinstance(result.exception, UsageError)
    assert result.exception.exit_code == 2
    assert words in str(result.exception)
    assert "\n" not in str(result.exception).strip() or "settings" in str(result.exception)


def test_pair_without_a_value_is_refused() -> None:
    """With the option's name."""
    result = CliRunner().invoke(app, ["pipeline", "verify", "--topic", "orders"])
    assert result.exit_code == 2
    assert "NAME=VALUE" in result.output
