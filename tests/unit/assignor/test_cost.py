"""The work of a round grows with tasks plus members, not with their product. Counted in lines executed, not in time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest
from members import said, snapshot, tasks

from assignor.assign import assign
from assignor.model import CopyState, GroupSnapshot, LagRecords, MemberId, RoundResult

GROWTH_MAX = 2.5
"""Twice the group may cost this much: twice the work, and the logarithm of the heaps and sorts."""


def lines_executed(action: Callable[[], object]) -> int:
    """Lines of the assignor that run during an action."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if "assignor" not in frame.f_code.co_filename:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return count


def group(instances: int, workers: int) -> GroupSnapshot:
    members = {
        f"m{number}-{index}": said(f"I{number}", index, capacity=workers)
        for number in range(instances)
        for index in range(workers)
    }
    return snapshot(members, tasks(*range(8 * instances)), tasks(*range(2 * instances), subtopology=1), standbys=1)


def after(before: GroupSnapshot, result: RoundResult) -> GroupSnapshot:
    members = {
        member: replace(
            each,
            active=result.assignments[member].active,
            standbys={task: CopyState(LagRecords(3)) for task in result.assignments[member].standbys},
        )
        for member, each in before.members.items()
    }
    return replace(before, members=members, memory=result.memory)


def rounds(instances: int, workers: int) -> dict[str, int]:
    """Lines that each kind of round takes."""
    start = group(instances, workers)
    steady = after(start, assign(start))
    dead = {f"I{number}" for number in range(instances // 10)}
    death = replace(steady, members={m: each for m, each in steady.members.items() if each.name not in dead})
    leave = replace(steady, members={m: replace(each, leaving=each.name in dead) for m, each in steady.members.items()})
    more = {
        MemberId(f"n{number}-{index}"): said(f"N{number}", index, capacity=workers)
        for number in range(instances // 5)
        for index in range(workers)
    }
    grown = replace(steady, members={**steady.members, **more})
    cases = {"start": start, "steady": steady, "death": death, "leave": leave, "grown": grown}
    return {name: lines_executed(lambda each=each: assign(each)) for name, each in cases.items()}  # type: ignore[misc]


@pytest.mark.parametrize("workers", [1, 4])
def test_twice_the_group_is_twice_the_work(workers: int) -> None:
    """In every kind of round, for single workers and for instances of several."""
    small, large = rounds(40 // workers, workers), rounds(80 // workers, workers)
    growth = {name: large[name] / small[name] for name in small}
    assert all(1 < each < GROWTH_MAX for each in growth.values()), growth


def test_one_instance_with_many_workers_is_no_worse() -> None:
    """Nothing goes through all workers of an instance for every task."""
    small, large = rounds(10, 8), rounds(10, 16)
    growth = {name: large[name] / small[name] for name in small}
    assert all(each < GROWTH_MAX for each in growth.values()), growth
