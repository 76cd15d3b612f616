"""`group describe`, `tasks` and `lag`: the live group and the stopped one, as the broker knows them."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
from pathlib import Path
from typing import Any

import orjson
import pytest
from harness.application import ALL_TASKS, Application, application
from harness.instances import TESTS, clean_environment, command_line, run_command
from harness.waiting import DEADLINE_S

from kstreams_worker.testing.broker import RunningKafka

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]


def facts(app: Application, *command: str) -> dict[str, Any]:
    """What a command says as JSON."""
    done = run_command(*command, *target(app), "--json")
    assert done.returncode == 0, done.stderr
    return orjson.loads(done.stdout)


def target(app: Application) -> tuple[str, ...]:
    return "--application-id", app.id, "--bootstrap-servers", app.kafka.bootstrap_servers


def test_a_group_is_shown_while_it_runs_and_after_it_has_stopped(kafka: RunningKafka, tmp_path: Path) -> None:
    """Who its members are, what they run, and what is left to do."""
    with application(kafka, tmp_path) as app:
        app.feeder.burst(2_000)
        instance = app.start(num_workers=2)
        app.until(lambda: instance.tasks_of_workers() == [2, 2], "each worker runs two tasks")
        app.until_complete()
        app.until(lambda: facts(app, "lag")["lag_records"] == 0, "all is committed")

        group = facts(app, "group", "describe")
        assert (group["group"], group["state"], group["protocol_type"]) == (app.id, "Stable", "stream")
        assert [(line["worker"], line["active"], line["capacity"]) for line in group["members"]] == [
            (0, 2, 2),
            (1, 2, 2),
        ]
        assert sum(line["is_leader"] for line in group["members"]) == 1

        behind = facts(app, "lag")
        assert [(line["partitions"], line["lag_records"]) for line in behind["members"]] == [(2, 0), (2, 0)]
        assert [line["task"] for line in behind["partitions"]] == ALL_TASKS
        assert {line["member"] for line in behind["partitions"]} == {line["name"] for line in group["members"]}
        assert sum(line["committed"] >= line["end"] > 0 for line in behind["partitions"]) == 4

        shown = run_command("group", "describe", *target(app)).stdout
        assert f"{app.id}: Stable, protocol type stream, 2 members" in shown
        watch_once(app)

        assert instance.close() == 0, instance.describe()
        app.feeder.burst(300)
        behind = facts(app, "lag")
        assert (behind["lag_records"], behind["members"]) == (300, [])
        assert facts(app, "group", "describe")["state"] == "Empty"
        assert "300 records behind" in run_command("lag", *target(app)).stdout


def watch_once(app: Application) -> None:
    """`tasks --watch` on a terminal draws, draws again, and ends with Ctrl-C; as JSON each look is a line."""
    terminal, inner = pty.openpty()
    drawing = subprocess.Popen(
        command_line("tasks", "--watch", "--interval", "0.2", *target(app)),
        cwd=TESTS,
        env=clean_environment(TERM="xterm", COLUMNS="160"),
        stdin=inner,
        stdout=inner,
        stderr=inner,
    )
    os.close(inner)
    try:
        seen = b""
        while seen.count(b"0_3") < 2:
            seen += os.read(terminal, 65536)
        drawing.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # so Linux tells that nobody has the other end any more
            while os.read(terminal, 65536):  # what is drawn last must go somewhere
                pass
        assert drawing.wait(DEADLINE_S) == 0
    finally:
        drawing.kill()
        drawing.wait(DEADLINE_S)
        os.close(terminal)

    with subprocess.Popen(
        command_line("tasks", "--watch", "--interval", "0.2", "--json", *target(app)),
        cwd=TESTS,
        env=clean_environment(PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
    ) as printing:
        assert printing.stdout is not None
        for _ in range(2):
            assert orjson.loads(printing.stdout.readline())["group_id"] == app.id
        printing.send_signal(signal.SIGINT)
        assert printing.wait(DEADLINE_S) == 0


@pytest.mark.parametrize("command", [("group", "describe"), ("lag",), ("tasks",)])
def test_a_group_that_does_not_exist_is_an_error_of_one_line(kafka: RunningKafka, command: tuple[str, ...]) -> None:
    done = run_command(*command, "--application-id", "nobody", "--bootstrap-servers", kafka.bootstrap_servers)
    assert done.returncode == 1
    assert done.stderr == (
        "error: there is no group nobody: check application.id, and that its workers have been started\n"
    )
