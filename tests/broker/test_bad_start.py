"""What an instance says that cannot start or cannot stay: one line with the next step, and an exit code."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness.application import application
from harness.instances import run_command

from kstreams_worker.devbroker.ports import free_ports
from kstreams_worker.testing.broker import RunningKafka

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]

NOWHERE = "127.0.0.1:1"


def run_once(
    *arguments: str, servers: str = NOWHERE, topology: str = "harness.topologies:counts", application_id: str = "app"
) -> tuple[int, str]:
    """Exit code of an instance that ends by itself, and the one line it wrote."""
    ended = run_command("run", topology, "--application-id", application_id, "--bootstrap-servers", servers, *arguments)
    assert ended.stdout == ""
    [line] = ended.stderr.splitlines()
    return ended.returncode, line


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("num.standby.task=1", "num.standby.task (flag): unknown setting; did you mean num.standby.tasks?"),
        ("commit.interval.ms=soon", "commit.interval.ms (flag): 'soon'"),
        ("processing.guarantee=at_most_once", "'exactly_once_v2' or 'at_least_once'"),
    ],
)
def test_unknown_settings_and_bad_values_are_named(setting: str, named: str) -> None:
    code, line = run_once("--set", setting)
    assert (code, named in line) == (2, True), line


@pytest.mark.parametrize(
    ("topology", "hint"),
    [
        ("harness.no_such_module:topology", "harness.no_such_module"),
        ("harness.topologies:count", "did you mean harness.topologies:counts?"),
        ("harness.topologies:counts", "INPUT_TOPIC"),
        ("harness.topologies", "MODULE:ATTRIBUTE"),
    ],
)
def test_a_topology_that_cannot_be_loaded_names_what_is_wrong(topology: str, hint: str) -> None:
    """The third one needs an environment variable that is not set here: an error of the user's own code."""
    code, line = run_once(topology=topology)
    assert (code, hint in line) == (2, True), line


def test_brokers_out_of_reach_are_told_in_a_line(tmp_path: Path) -> None:
    [closed_port] = free_ports(1)
    code, line = run_once(
        "--state-dir", str(tmp_path), servers=f"127.0.0.1:{closed_port}", topology="harness.topologies:fixed"
    )
    assert code == 1
    assert f"cannot reach Kafka at 127.0.0.1:{closed_port}" in line
    assert "check bootstrap.servers" in line


def test_a_state_directory_in_use_is_refused_and_its_owner_goes_on(kafka: RunningKafka, tmp_path: Path) -> None:
    with application(kafka, tmp_path) as app:
        app.feeder.burst(1_000).start()
        owner = app.start()
        app.until_balanced(owner)
        state = tmp_path / "instance-1-state"
        code, line = run_once(
            "--state-dir",
            str(state),
            servers=kafka.bootstrap_servers,
            topology="harness.topologies:fixed",
            application_id=app.id,
        )
        assert code == 1
        assert "in use by another instance" in line
        assert str(state) in line
        app.until_counted()
        app.finish()


def test_another_topology_in_the_same_group_is_refused_and_the_group_goes_on(
    kafka: RunningKafka, tmp_path: Path
) -> None:
    with application(kafka, tmp_path) as app:
        app.feeder.burst(1_000).start()
        first = app.start()
        app.until_balanced(first)

        stranger = app.start("harness.topologies:other_counts")
        assert stranger.wait() == 1, stranger.describe()
        [error] = [line for line in stranger.lines() if line["level"] == "error"]
        assert "runs topology" in error["event"]
        assert "use another application.id" in error["event"]

        app.until_balanced(first)
        app.until_counted()
        app.finish()


def test_missing_topics_are_waited_for(kafka: RunningKafka, tmp_path: Path) -> None:
    """It says which, and starts when they are there."""
    with application(kafka, tmp_path, create_topics=False) as app:
        waiting = app.start()
        [warning] = [line for line in waiting.wait_for_level("warning") if "waiting for topics" in line["event"]]
        assert f"{app.input_topic}, {app.output_topic}" in warning["event"]
        app.create_topics()
        app.feeder.burst(1_000).start()
        app.until_balanced(waiting)
        app.until_counted()
        app.finish()
