"""A round stops nothing but the tasks that are being learned, however long it lasts."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import topologies
from harness.application import ALL_TASKS, application
from harness.slow_member import SlowMember

from kstreams_worker.testing.broker import RunningKafka

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]

MORE_RECORDS = 500
"""Outputs to wait for in each partition that must go on; several commits' worth."""


def test_only_tasks_that_are_being_learned_pause_in_a_round(
    kafka: RunningKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow member holds the round of the hand-over open. Meanwhile the committed outputs of the tasks that stay grow,
    those of the tasks that move do not; after it all go on.

    Records keep their partition from input to output, so an output partition's records are one task's.
    """
    with application(kafka, tmp_path) as app:
        monkeypatch.setenv("INPUT_TOPIC", app.input_topic)
        monkeypatch.setenv("OUTPUT_TOPIC", app.output_topic)
        with SlowMember(kafka.bootstrap_servers, app.id, topologies.counts()) as slow:
            app.feeder.burst(5_000).start()
            owner = app.start()
            app.until(lambda: owner.tasks() == ALL_TASKS, "the owner runs all tasks")
            app.until_counted()

            newcomer = app.start()
            app.until(slow.holds.is_set, "a learner is ready, and the round waits for the slow member")
            app.until(lambda: owner.tasks(state="suspended") != [], "a task that moves is suspended")
            moving = {int(task.partition("_")[2]) for task in owner.tasks(state="suspended")}
            staying = {0, 1, 2, 3} - moving
            assert newcomer.tasks() == []

            app.history.read_to_end(moving)
            before = dict(app.history.records_of_partition)
            for partition in staying:
                app.until_counted_in(partition, before[partition] + MORE_RECORDS)
            app.history.read_to_end(moving)
            after = app.history.records_of_partition
            assert {partition: after[partition] for partition in moving} == {
                partition: before[partition] for partition in moving
            }
            assert slow.holds.is_set()
            assert not newcomer.log("round")[1:], "the round is still open"

            slow.release()
            app.until_balanced(owner, newcomer)
            assert {f"0_{partition}" for partition in moving} <= set(newcomer.tasks())
            for partition in moving:
                app.until_counted_in(partition, before[partition] + MORE_RECORDS)
        app.finish()
