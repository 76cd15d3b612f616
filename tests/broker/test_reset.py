"""`kstreams-worker reset`: a stopped application begins again, and what runs is left alone."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from harness.application import Application, application
from harness.instances import run_command

from kstreams_worker.group.client import GroupClient
from kstreams_worker.io.admin import Admin
from kstreams_worker.testing.broker import RunningKafka

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]

RECORDS = 1_000
TOPOLOGY = "harness.topologies:regrouped_counts"
STATELESS, STATEFUL = ([f"{number}_{partition}" for partition in range(4)] for number in (0, 1))


def reset(app: Application, *options: str) -> tuple[int, str, str]:
    """Run it on the state of the first instance; returns exit code, output, errors."""
    done = run_command(
        "reset",
        TOPOLOGY,
        *options,
        *("--application-id", app.id, "--bootstrap-servers", app.kafka.bootstrap_servers),
        *("--set", f"state.dir={app.directory / 'instance-1-state'}"),
        environment={"INPUT_TOPIC": app.input_topic, "OUTPUT_TOPIC": app.output_topic},
    )
    return done.returncode, done.stdout, done.stderr


def planned(app: Application, *options: str) -> dict[str, Any]:
    """What a dry run says."""
    code, shown, complaint = reset(app, "--dry-run", "--json", *options)
    assert code == 0, complaint
    plan = orjson.loads(shown)
    assert plan["executed"] is False
    return plan


def left(plan: dict[str, Any], ends: dict[int, int]) -> int:
    """How many records there would be to process."""
    return sum(ends[each["partition"]] - each["after"] for each in plan["offsets"])


def test_an_application_begins_again(kafka: RunningKafka, tmp_path: Path) -> None:
    """Refused while it runs; then offsets, changelog and local state are back where they were at first."""
    with application(kafka, tmp_path) as app:
        admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
        internal = [f"{app.id}-again-repartition", f"{app.id}-control", f"{app.id}-counts-changelog"]
        app.feeder.burst(RECORDS)
        instance = app.start(TOPOLOGY)
        app.until(lambda: instance.tasks() == [*STATELESS, *STATEFUL], "it runs all tasks")
        counted = dict(app.until_complete())

        code, _, complaint = reset(app, "--execute")
        assert code == 1
        assert complaint.startswith(f"error: group {app.id} has 1 members, on 127.0.0.1: stop all instances first")
        assert instance.close() == 0, instance.describe()

        times_ms = sorted(itertools.chain(*app.feeder.timestamps_ms.values()))
        inputs = [(app.input_topic, partition) for partition in range(4)]
        ends = {partition: end for (_, partition), end in admin.end_offsets(inputs, committed=False).items()}
        assert sum(ends.values()) == RECORDS
        plan = planned(app, "--local-state")
        assert (left(plan, ends), plan["internal_topics"]) == (RECORDS, internal)
        assert set(plan["local_tasks"]) >= set(STATEFUL)
        assert {each["before"] for each in plan["offsets"]} == set(ends.values())
        assert left(planned(app, "--to-latest"), ends) == 0
        assert left(planned(app, "--shift-by", "-3"), ends) == 4 * 3
        at = datetime.fromtimestamp(times_ms[700] / 1000, UTC).isoformat(timespec="milliseconds")
        assert left(planned(app, "--to-datetime", at), ends) == RECORDS - 700
        assert left(planned(app, "--by-duration", "PT1M"), ends) == 0, "all input is an hour old"
        assert left(planned(app, "--by-duration", "P1D"), ends) == RECORDS

        code, shown, complaint = reset(app, "--execute", "--local-state")
        assert code == 0, complaint
        assert all(f"delete topic {topic}" in shown for topic in internal)
        assert shown.endswith("Done.\n")
        assert admin.partition_counts([*internal, app.input_topic]) == {app.input_topic: 4}
        plan = planned(app, "--local-state")
        assert (plan["internal_topics"], plan["local_tasks"]) == ([], [])
        assert {(each["before"], each["after"]) for each in plan["offsets"]} == {(0, 0)}
        with GroupClient.connect({"bootstrap_servers": kafka.bootstrap_servers}) as client:
            zeros = dict.fromkeys(inputs, 0)
            app.until(lambda: client.committed_offsets(app.id) == zeros, "the repartition topic's offsets went with it")

        app.history.read_to_end()
        before = {key: len(values) for key, values in app.history.values.items()}
        instance.start()

        def counted_again() -> bool:
            app.history.read()
            return all(
                len(values) > before[key] and values[-1] == counted[key] for key, values in app.history.values.items()
            )

        app.until(counted_again, "all is counted a second time")
        assert {key: max(values) for key, values in app.history.values.items()} == counted, (
            "no count went on from the first"
        )
        assert instance.close() == 0, instance.describe()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ((), "error: give --dry-run to see what would be done, or --execute to do it\n"),
        (
            ("--dry-run", "--to-latest", "--shift-by", "1"),
            "error: --to-latest and --shift-by contradict each other; keep one\n",
        ),
        (("--dry-run", "--by-duration", "30"), "error: --by-duration '30' is not a duration such as PT30M or P7D\n"),
        (
            ("--dry-run", "--to-datetime", "soon"),
            "error: --to-datetime 'soon' is not a time such as 2026-01-31T08:00:00\n",
        ),
    ],
)
def test_mistakes_are_told_before_a_broker_is_asked(options: tuple[str, ...], complaint: str) -> None:
    done = run_command(
        "reset", "harness.topologies:fixed", *options, "--application-id", "a", "--bootstrap-servers", "localhost:1"
    )
    assert (done.returncode, done.stderr) == (2, complaint)
