"""`kstreams-worker doctor`, before an application has ever run, while it runs, and where it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from harness.application import ALL_TASKS, Application, application
from harness.instances import run_command

from kstreams_worker.testing.broker import RunningKafka

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]


def doctor(app: Application, *options: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """Exit code, and the findings by check."""
    done = run_command(
        "doctor",
        "harness.topologies:counts",
        "--json",
        *("--application-id", app.id, "--bootstrap-servers", app.kafka.bootstrap_servers),
        *("--set", f"state.dir={app.directory / 'instance-1-state'}"),
        *options,
        environment={"INPUT_TOPIC": app.input_topic, "OUTPUT_TOPIC": app.output_topic},
    )
    assert done.stderr == ""
    told = orjson.loads(done.stdout)
    assert told["ok"] is (done.returncode == 0)
    found: dict[str, list[dict[str, Any]]] = {}
    for finding in told["findings"]:
        found.setdefault(finding["check"], []).append(finding)
    return done.returncode, found


def test_from_nothing_to_a_running_application_and_a_topic_that_does_not_fit(
    kafka: RunningKafka, tmp_path: Path
) -> None:
    """Missing topics fail; with them all is well, before the first start and after; then a changelog of another size."""
    with application(kafka, tmp_path, create_topics=False) as app:
        code, found = doctor(app)
        assert code == 1
        assert [line["level"] for line in found["topics"]] == ["fail", "fail"]
        assert {line["text"] for line in found["topics"]} == {
            f"{topic} does not exist" for topic in (app.input_topic, app.output_topic)
        }

        app.create_topics()
        code, found = doctor(app)
        assert code == 0, found
        changelog = f"{app.id}-counts-changelog"
        assert found["internal topics"][0]["text"] == f"the first instance will create {changelog}"
        assert {line["level"] for lines in found.values() for line in lines} <= {"ok", "warn"}
        assert found["transactions"][0]["level"] == "ok"
        assert found["clock"][0]["level"] == "ok", "the broker is on this very machine"
        assert {line["level"] for line in found["rights"]} == {"ok"}

        app.feeder.burst(500)
        instance = app.start()
        app.until(lambda: instance.tasks() == ALL_TASKS, "it runs all tasks")
        app.until_complete()
        code, found = doctor(app)
        assert code == 0, found
        assert found["internal topics"][0]["text"] == "1 exist and fit"
        assert "4 tasks, an instance runs on it" in found["state"][0]["text"]
        app.finish()


def test_an_internal_topic_that_does_not_fit(kafka: RunningKafka, tmp_path: Path) -> None:
    with application(kafka, tmp_path) as app:
        kafka.create_topic(f"{app.id}-counts-changelog", 3)
        code, found = doctor(app)
        assert code == 1
        [line] = found["internal topics"]
        assert "has 3 partitions, the topology needs 4" in line["text"]


def test_brokers_that_do_not_answer(tmp_path: Path) -> None:
    """Told in a line, after what can be said without them."""
    done = run_command(
        "doctor", "--application-id", "a", "--bootstrap-servers", "127.0.0.1:1", "--set", f"state.dir={tmp_path}"
    )
    assert done.returncode == 1
    assert done.stderr == ""
    *local, failure, step = done.stdout.splitlines()
    assert any(line.startswith("ok    state directory") for line in local)
    assert failure.startswith("fail  brokers: cannot reach Kafka at 127.0.0.1:1")
    assert step.strip().startswith("check bootstrap.servers")
