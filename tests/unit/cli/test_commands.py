"""The command line: what each command prints, and that errors are one line with the right exit code."""

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from kstreams_worker import cli
from kstreams_worker.cli import app
from kstreams_worker.cli.run import run
from kstreams_worker.config import known_names
from kstreams_worker.config.names import environment_name
from kstreams_worker.errors import KStreamsError, SettingsError

GROUP = ["--application-id", "orders", "--bootstrap-servers", "none:1"]
APP = """
from kstreams_worker.topology.builder import StreamsBuilder
def topology():
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    return builder.build()
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project with a topology, and no settings in the environment."""
    (tmp_path / "made_cli_app.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for variable in os.environ:
        if variable.startswith("KSTREAMS_"):
            monkeypatch.delenv(variable)


def output_of(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def run_main(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Exit code and standard error of the whole command."""
    monkeypatch.setattr(sys, "argv", ["kstreams-worker", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code, capsys.readouterr().err


def test_topology_in_all_formats() -> None:
    assert "Sub-topology: 0" in output_of("topology", "made_cli_app:topology")
    assert output_of("topology", "made_cli_app:topology", "--format", "mermaid").startswith("flowchart")
    facts = json.loads(output_of("topology", "made_cli_app:topology", "--format", "json"))
    assert re.fullmatch("[0-9a-f]{16}", facts["fingerprint"])
    [sub] = facts["subtopologies"]
    assert (sub["source_topics"], sub["sink_topics"], sub["stores"]) == (["in"], ["out"], [])


def test_config_shows_values_and_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSTREAMS_NUM_WORKERS", "2")
    Path("app.properties").write_text("application.id=orders\nsasl.password=hunter2\nsasl.username=me\n")
    arguments = ["config", "--config", "app.properties", "--bootstrap-servers", "b:1", "--set", "sasl.mechanism=PLAIN"]
    shown = output_of(*arguments, "--set", "security.protocol=SASL_SSL")
    lines = {line.split("=")[0]: line for line in shown.splitlines()}
    assert re.fullmatch(r"num\.workers=2 +environment KSTREAMS_NUM_WORKERS", lines["num.workers"])
    assert re.fullmatch(r"application\.id=orders +file app\.properties", lines["application.id"])
    assert re.fullmatch(r"bootstrap\.servers=b:1 +flag", lines["bootstrap.servers"])
    assert re.fullmatch(r"http\.port=null +default", lines["http.port"])
    assert "hunter2" not in shown


def test_config_as_json_and_with_explanations() -> None:
    required = ["--application-id", "orders", "--bootstrap-servers", "b:1"]
    facts = json.loads(output_of("config", *required, "--json"))
    assert set(facts) == set(known_names())
    assert facts["num.workers"]["value"] == 1
    assert "Worker processes of this instance." in output_of("config", *required, "--verbose")


def test_config_file_may_be_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("app.properties").write_text("application.id=orders\nbootstrap.servers=b:1\n")
    monkeypatch.setenv("KSTREAMS_CONFIG", "app.properties")
    assert "application.id=orders" in output_of("config")


def test_version_names_the_libraries() -> None:
    assert set(json.loads(output_of("version", "--json"))) >= {"kstreams-worker", "python", "confluent-kafka"}
    assert "kafka-python 3." in output_of("version")
    assert output_of("--version").splitlines() == output_of("version").splitlines()[:1]


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["topology", "made_cli_app:none"], 2, "error: module made_cli_app .* has no 'none'"),
        (
            ["run", "made_cli_app:topology", "--bootstrap-servers", "b:1", "--workers", "0"],
            2,
            r"error: application\.id: required; give --application-id, .*\nerror: num\.workers \(flag\): 0: .*\n$",
        ),
        (["run", "made_cli_app:topology", "--bootstrap-servers", "b:1"], 2, r"error: application\.id: required; .*\n$"),
        (["config", "--set", "num.workers"], 2, "error: --set 'num.workers' is not NAME=VALUE"),
        (["config", "--config", "none.toml"], 2, "error: none.toml: No such file or directory"),
        (
            ["config", "--application-id", "a", "--set", "application.id=b"],
            2,
            r"error: application\.id is given twice on the command line; keep one",
        ),
        (["scale-down", *GROUP], 2, "error: say which instances are to leave"),
        (["scale-down", *GROUP, "--to", "80%", "--instances", "a"], 2, "error: say which instances are to leave"),
        (["scale-down", *GROUP, "--cancel", "--to", "80%"], 2, "error: --cancel takes back the orders of"),
        (["scale-down", *GROUP, "--cancel", "--timeout", "10m"], 2, "error: --cancel takes back the orders of"),
        (
            ["scale-down", *GROUP, "--to", "80%", "--timeout", "soon"],
            2,
            "error: --timeout 'soon' is not a time, such as",
        ),
    ],
)
def test_mistakes_are_told_without_a_traceback(
    arguments: list[str],
    exit_code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, shown = run_main(monkeypatch, capsys, *arguments)
    assert code == exit_code
    assert re.match(message, shown)
    assert "Traceback" not in shown


@pytest.mark.parametrize(
    ("error", "exit_code", "message"),
    [
        (KStreamsError("the broker said no; try again"), 1, "error: the broker said no; try again\n"),
        (SettingsError("num.workers: 0"), 2, "error: num.workers: 0\n"),
        (
            ZeroDivisionError("by zero"),
            1,
            r"error: unexpected ZeroDivisionError at .*\.py:\d+: by zero; run again with",
        ),
    ],
)
def test_every_error_is_one_line_and_debug_adds_the_traceback(
    error: Exception,
    exit_code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(cli, "app", fail)
    code, shown = run_main(monkeypatch, capsys)
    assert (code, shown.count("\n")) == (exit_code, 1)
    assert re.match(message, shown)
    monkeypatch.setenv("KSTREAMS_DEBUG", "1")
    _, shown = run_main(monkeypatch, capsys)
    assert "Traceback" in shown


def test_every_flag_of_a_setting_names_its_environment_variable() -> None:
    """The variable that the help names is the one that is read."""
    names = {environment_name(name) for name in known_names()}
    undocumented = {"config", "set_values", "topology"}
    for parameter in inspect.signature(run, eval_str=True).parameters.values():
        [option] = [item for item in parameter.annotation.__metadata__ if hasattr(item, "help")]
        found = re.findall(r"\[env: (\w+)\]", option.help)
        assert set(found) <= names
        assert len(found) == (0 if parameter.name in undocumented else 1), parameter.name


def test_help_lists_every_command() -> None:
    shown = output_of("--help")
    names = ["run", "topology", "config", "version", "broker", "pipeline"]
    names += ["tasks", "group", "lag", "explain", "scale-down", "reset", "doctor", "simulate"]
    for name in names:
        assert re.search(rf"^  {name} ", shown, re.MULTILINE)


def test_help_loads_nothing_heavy() -> None:
    """That is what keeps it quick: no settings model, no client library, no web server. (Typer itself needs pydantic.)"""
    code = (
        "import sys\nfrom kstreams_worker.cli import app\nfrom typer.testing import CliRunner\n"
        "for command in ('run', 'tasks', 'group describe', 'lag', 'explain', 'scale-down', 'reset', 'doctor', 'simulate'):\n"
        "    assert CliRunner().invoke(app, [*command.split(), '--help']).exit_code == 0\n"
        "print([name for name in sys.argv[1:] if name in sys.modules])"
    )
    heavy = "kstreams_worker.config kafka confluent_kafka rocksdict pyspark uvicorn structlog prometheus_client rich"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code, *heavy.split()], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.strip() == "[]"


def test_the_app_is_a_typer_app_that_others_can_mount() -> None:
    assert isinstance(app, typer.Typer)
