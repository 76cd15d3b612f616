"""The planning tool: what it compares must be comparable."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from kstreams_worker.cli import app
from kstreams_worker.simulator.planning import Change, Cost, Plan, Way, costs

PLAN = Plan(Change.SCALE_UP, instances=4, tasks=40, state_mb_per_task=80)


def by_way(plan: Plan) -> dict[Way, Cost]:
    return {cost.way: cost for cost in costs(plan)}


def test_a_newcomer_is_learned_for_without_a_stop() -> None:
    """All ways move the same tasks and restore the same bytes; only with learners the processing goes on."""
    found = by_way(PLAN)
    assert {cost.moved_tasks for cost in found.values()} == {8}
    for cost in found.values():
        assert cost.restored_mb == pytest.approx(8 * 80, rel=0.3)
    assert found[Way.CONSERVATIVE].rounds < found[Way.EAGER].rounds
    assert found[Way.EAGER].longest_gap_s < 1 < found[Way.STOP_THE_WORLD].longest_gap_s
    assert found[Way.EAGER].unavailable_task_s < found[Way.STOP_THE_WORLD].unavailable_task_s / 50


def test_leaving_instances_hand_over_all_they_have() -> None:
    found = by_way(replace(PLAN, change=Change.SCALE_DOWN, count=2))
    assert found[Way.EAGER].moved_tasks == 20
    assert found[Way.EAGER].longest_gap_s < 1


def test_standbys_make_a_crash_cost_its_detection_only() -> None:
    """Nothing is restored for the tasks themselves: what is restored are new standbys."""
    without = by_way(replace(PLAN, change=Change.CRASH))[Way.EAGER]
    with_standby = by_way(replace(PLAN, change=Change.CRASH, standbys=1))[Way.EAGER]
    assert without.longest_gap_s - with_standby.longest_gap_s > 2
    assert 9 < with_standby.longest_gap_s < 12, "the session timeout and a round"


def test_the_same_seed_gives_the_same_figures() -> None:
    assert costs(PLAN) == costs(PLAN)
    assert costs(PLAN) != costs(replace(PLAN, seed=1))


def test_the_command_prints_a_table_or_json() -> None:
    options = ["simulate", "--instances", "3", "--tasks", "12", "--event", "crash"]
    shown = CliRunner().invoke(app, options, catch_exceptions=False).stdout
    assert all(way.value in shown for way in Way)
    facts = json.loads(CliRunner().invoke(app, [*options, "--json"], catch_exceptions=False).stdout)
    assert [each["way"] for each in facts["ways"]] == [way.value for way in Way]
    assert facts["plan"]["change"] == "crash"


def test_somebody_must_stay() -> None:
    result = CliRunner().invoke(app, ["simulate", "--instances", "3", "--event", "scale-down", "--count", "3"])
    assert result.exit_code == 2
    assert "one must stay" in result.output
