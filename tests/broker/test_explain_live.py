"""`kstreams-worker explain` on a live group: asked from outside, it tells what the leader decided."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from harness.application import application
from harness.instances import run_command
from harness.live_rounds import LiveRounds

from kstreams_worker.testing.broker import RunningKafka

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]


def test_a_round_is_told_while_a_task_is_learned_and_after_it_has_moved(kafka: RunningKafka, tmp_path: Path) -> None:
    """Who learns what, why, and what it waits for; then who took over."""
    with application(kafka, tmp_path, acceptable_recovery_lag=0) as app:
        app.feeder.burst(2_000).start()
        target = ("--application-id", app.id, "--bootstrap-servers", kafka.bootstrap_servers)

        def told() -> dict[str, Any]:
            done = run_command("explain", *target, "--json")
            assert done.returncode == 0, done.stderr
            return orjson.loads(done.stdout)

        with LiveRounds(app) as live:
            live.joins("S1")
            live.round("S1(assigned: [T1, T2, T3, T4], revoked: [], learning: [])")
            assert told()["cases"] == {"start": 4}

            live.joins("S2", gated=True)
            live.round("""
                S1(assigned: [T1, T2, T3, T4], revoked: [], learning: [])
                S2(assigned: [], revoked: [], learning: [T1, T2])
            """)
            facts = told()
            assert (facts["members"], facts["tasks"], facts["cases"]) == (2, 4, {"keep": 2, "learn": 2})
            first, second = ({move[side] for move in facts["moves"]} for side in ("from", "learner"))
            assert len(first) == len(second) == 1
            assert first == {facts["leader"]} != second
            for move in facts["moves"]:
                assert move["reason"] == "for balance; the learner's instance has most room"
                assert move["waits_for"] == f"{move['learner']} to be ready"
                assert move["to"] == move["from"]

            shown = run_command("explain", *target)
            head, summary, story = shown.stdout.splitlines()
            assert head == f"{app.id}: Stable, 2 members, led by {facts['leader']}"
            assert summary == "4 tasks: 2 stay, 2 are being learned"
            assert story.endswith(f"waits for {move['learner']} to be ready, which has just begun")

            live.open("S2")
            app.until_balanced(*app.instances)
            facts = told()
            assert facts["cases"]["keep"] + facts["cases"]["grant"] == 4
            for move in facts["moves"]:
                assert (move["case"], move["to"], move["reason"]) == ("grant", *second, "its learner is ready")
        app.finish()


def test_a_group_that_does_not_exist_is_an_error_of_one_line(kafka: RunningKafka) -> None:
    done = run_command("explain", "--application-id", "nobody", "--bootstrap-servers", kafka.bootstrap_servers)
    assert done.returncode == 1
    assert done.stderr == (
        "error: there is no group nobody: check application.id, and that its workers have been started\n"
    )
