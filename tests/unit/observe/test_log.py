"""Logs: one event a line, in both formats, from our modules and from the libraries."""

import io
import json
import logging
import warnings
from collections.abc import Iterator

import pytest
import structlog

from kstreams_worker.observe.levels import parse_levels
from kstreams_worker.observe.log import LINES_PER_SECOND, RateLimit, configure_logging, set_log_context


@pytest.fixture(autouse=True)
def restore_logging() -> Iterator[None]:
    """Leave the test process's logging as it was."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    named = {name: logging.getLogger(name).level for name in parse_levels("info").loggers}
    yield
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, logger_level in named.items():
        logging.getLogger(name).setLevel(logger_level)
    structlog.reset_defaults()
    set_log_context(group=None, worker=None, generation=None)


def test_json_lines_carry_the_event_its_facts_and_the_context() -> None:
    stream = io.StringIO()
    configure_logging("json", stream=stream, group="orders", worker=0)
    set_log_context(generation=3)
    structlog.get_logger("runtime").info("Joined the group", tasks=["0_1"])
    set_log_context(generation=None)
    logging.getLogger("library").warning("Retry %d\nof %d", 1, 2)
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert first.pop("time").endswith("Z")
    assert first == {
        "level": "info",
        "event": "Joined the group",
        "logger": "runtime",
        "group": "orders",
        "worker": 0,
        "generation": 3,
        "tasks": ["0_1"],
    }
    assert (second["event"], second["group"], "generation" in second) == ("Retry 1\nof 2", "orders", False)


def test_console_lines_are_key_value_and_never_more_than_one() -> None:
    stream = io.StringIO()
    configure_logging("console", stream=stream, group="orders")
    log = structlog.get_logger("runtime")
    log.info("Joined\nthe group", text="two\nlines")
    try:
        int("broken")
    except ValueError:
        log.exception("Failed")
    joined, failed = stream.getvalue().splitlines()
    assert joined.split(" ", 1)[1] == "info    Joined\\nthe group  group=orders text=two\\nlines"
    assert "ValueError: invalid literal" in failed


def test_auto_is_json_where_nobody_watches() -> None:
    stream = io.StringIO()
    configure_logging("auto", stream=stream)
    structlog.get_logger("runtime").info("Hello")
    assert json.loads(stream.getvalue())["event"] == "Hello"


def test_client_libraries_are_quiet_unless_asked() -> None:
    stream = io.StringIO()
    configure_logging("json", "info", stream=stream)
    logging.getLogger("kafka.net.connection").error("reconnecting")
    assert stream.getvalue() == ""
    configure_logging("json", "warning,kafka=debug", stream=stream)
    logging.getLogger("kafka.net.connection").debug("reconnecting")
    structlog.get_logger("runtime").info("hidden")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["reconnecting"]


def test_warnings_become_log_lines() -> None:
    stream = io.StringIO()
    configure_logging("json", stream=stream)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn("careful", stacklevel=1)
        logging.captureWarnings(False)
    assert "careful" in json.loads(stream.getvalue())["event"]


def record(second: int, name: str = "noisy") -> logging.LogRecord:
    made = logging.LogRecord(name, logging.INFO, "file.py", 1, "again", None, None)
    made.created = float(second)
    return made


def test_a_logger_that_floods_is_cut_and_says_by_how_much() -> None:
    limit = RateLimit(2)
    assert [limit.filter(record(1)) for _ in range(5)] == [True, True, False, False, False]
    assert limit.filter(record(1, "other"))
    following = record(2)
    assert limit.filter(following)
    assert following.dropped_lines == 3  # type: ignore[attr-defined]
    unmarked = record(3)
    assert limit.filter(unmarked)
    assert not hasattr(unmarked, "dropped_lines")


def test_the_number_of_dropped_lines_is_on_the_line() -> None:
    stream = io.StringIO()
    configure_logging("json", stream=stream)
    logger = logging.getLogger("noisy")
    for _ in range(LINES_PER_SECOND + 1):
        logger.handle(record(1))
    logger.handle(record(2))
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert len(lines) == LINES_PER_SECOND + 1
    assert lines[-1]["dropped_lines"] == 1


@pytest.mark.parametrize("text", ["loud", "info,kafka=", "info,=debug", ""])
def test_levels_that_cannot_be_read_are_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not LEVEL or LOGGER=LEVEL"):
        parse_levels(text)
