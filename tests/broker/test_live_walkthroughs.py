"""The walk-throughs of KIP-429's drafts, with real instances on a real broker, under a steady input.

An instance that learns restores nothing until the test lets it, so it is the test that decides which learner is ready
when. What members said and were given in a round is read from the broker, the order of all rounds from the logs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.application import Application, application
from harness.live_rounds import LiveRounds

from kstreams_worker.testing.broker import RunningKafka

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]

SHORT_SESSION_MS = 6_000
"""The shortest that brokers allow."""


@pytest.fixture
def counting(kafka: RunningKafka, tmp_path: Path) -> Iterator[Application]:
    # A learner has to read all of the changelog; a worker that is held in a round keeps its transaction for longer.
    settings = {"acceptable_recovery_lag": 0, "transaction_timeout_ms": 60_000}
    with application(kafka, tmp_path, partitions=5, **settings) as app:
        app.feeder.burst(5_000).start()
        yield app


def test_scale_up_from_an_empty_group_and_then_while_it_runs(counting: Application) -> None:
    """One instance has all, two join and take over what they have learned; then two more, one after the other.

    The two that join at once are let to learn at the same moment, but need not be ready in the same round: their tasks may
    change hands in several rounds where the draft's table shows one. All other rounds are as the tables read.
    """
    with LiveRounds(counting) as live:
        live.joins("S1")
        live.round("S1(assigned: [T1, T2, T3, T4, T5], revoked: [], learning: [])")
        with live.holding_rounds("S1"):
            live.joins("S2", "S3", gated=True)
            live.until_members(3)
        live.round(
            status="""
            S1(assigned: [T1, T2, T3, T4, T5], revoked: [], learning: [])
            S2(assigned: [], revoked: [], learning: [])
            S3(assigned: [], revoked: [], learning: [])
            """,
            assigns="""
            S1(assigned: [T1, T2, T3, T4, T5], revoked: [], learning: [])
            S2(assigned: [], revoked: [], learning: [T3, T4])
            S3(assigned: [], revoked: [], learning: [T5])
            """,
        )
        live.open("S2", "S3")
        live.round("""
            S1(assigned: [T1, T2], revoked: [T3, T4, T5], learning: [])
            S2(assigned: [T3, T4], revoked: [], learning: [])
            S3(assigned: [T5], revoked: [], learning: [])
        """)
        live.check([["T1", "T2", "T3", "T4", "T5"], ["S2", "S3"]], in_steps=True)

        live.joins("S4", gated=True)
        live.round("""
            S1(assigned: [T1, T2], revoked: [], learning: [])
            S2(assigned: [T3, T4], revoked: [], learning: [])
            S3(assigned: [T5], revoked: [], learning: [])
            S4(assigned: [], revoked: [], learning: [T1])
        """)
        live.joins("S5", gated=True)
        live.round(
            status="""
            S1(assigned: [T2], revoked: [T1], learning: [])
            S2(assigned: [T3, T4], revoked: [], learning: [])
            S3(assigned: [T5], revoked: [], learning: [])
            S4(assigned: [], revoked: [], learning: [T1])
            S5(assigned: [], revoked: [], learning: [])
            """,
            assigns="""
            S1(assigned: [T1, T2], revoked: [], learning: [])
            S2(assigned: [T3, T4], revoked: [], learning: [])
            S3(assigned: [T5], revoked: [], learning: [])
            S4(assigned: [], revoked: [], learning: [T1])
            S5(assigned: [], revoked: [], learning: [T3])
            """,
        )
        live.open("S4")
        live.round(
            status="""
            S1(assigned: [T2], revoked: [T1], learning: [])
            S2(assigned: [T4], revoked: [T3], learning: [])
            S3(assigned: [T5], revoked: [], learning: [])
            S4(assigned: [], revoked: [], learning: [T1])
            S5(assigned: [], revoked: [], learning: [T3])
            """,
            assigns="""
            S1(assigned: [T2], revoked: [T1], learning: [])
            S2(assigned: [T3, T4], revoked: [], learning: [])
            S3(assigned: [T5], revoked: [], learning: [])
            S4(assigned: [T1], revoked: [], learning: [])
            S5(assigned: [], revoked: [], learning: [T3])
            """,
        )
        live.open("S5")
        live.round(
            status="""
            S1(assigned: [T2], revoked: [], learning: [])
            S2(assigned: [T4], revoked: [T3], learning: [])
            S3(assigned: [T5], revoked: [], learning: [])
            S4(assigned: [T1], revoked: [], learning: [])
            S5(assigned: [], revoked: [], learning: [T3])
            """,
            assigns="""
            S1(assigned: [T2], revoked: [], learning: [])
            S2(assigned: [T4], revoked: [T3], learning: [])
            S3(assigned: [T5], revoked: [], learning: [])
            S4(assigned: [T1], revoked: [], learning: [])
            S5(assigned: [T3], revoked: [], learning: [])
            """,
        )
        counting.until_balanced(*counting.instances, tasks=[f"0_{partition}" for partition in range(5)])
        live.check([["T1", "T2", "T3", "T4", "T5"], ["S2", "S3"]], in_steps=True)
    counting.finish()


def test_the_leader_dies_while_its_task_is_learned(counting: Application) -> None:
    """Its learner, though unready, gets the task at once and runs it when it is restored; its other task goes to where most
    room is. Nothing is processed twice, and what runs elsewhere is not touched."""
    with LiveRounds(counting) as live:
        live.joins("S1", session_timeout_ms=SHORT_SESSION_MS)
        live.round("S1(assigned: [T1, T2, T3, T4, T5], revoked: [], learning: [])")
        live.joins("S2")
        live.round("""
            S1(assigned: [T1, T2, T5], revoked: [], learning: [])
            S2(assigned: [T3, T4], revoked: [], learning: [])
        """)
        live.joins("S3")
        live.round("""
            S1(assigned: [T1, T2], revoked: [], learning: [])
            S2(assigned: [T3, T4], revoked: [], learning: [])
            S3(assigned: [T5], revoked: [], learning: [])
        """)
        live.joins("S4", gated=True)
        live.round("""
            S1(assigned: [T1, T2], revoked: [], learning: [])
            S2(assigned: [T3, T4], revoked: [], learning: [])
            S3(assigned: [T5], revoked: [], learning: [])
            S4(assigned: [], revoked: [], learning: [T1])
        """)
        assert live["S1"].log("round")[-1]["leader"]
        live["S1"].kill()
        live.round(
            status="""
            S2(assigned: [T3, T4], revoked: [], learning: [])
            S3(assigned: [T5], revoked: [], learning: [])
            S4(assigned: [], revoked: [], learning: [T1])
            """,
            assigns="""
            S2(assigned: [T3, T4], revoked: [], learning: [])
            S3(assigned: [T2, T5], revoked: [], learning: [])
            S4(assigned: [T1], revoked: [], learning: [])
            """,
        )
        live.open("S4")
        counting.until_balanced(*counting.instances[1:], tasks=[f"0_{partition}" for partition in range(5)])
        live.check([["T1", "T2", "T3", "T4", "T5"]], in_steps=True)
    counting.finish()
