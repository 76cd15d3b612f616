"""The assignor: one function from a round's snapshot to its assignment.

    who is there (roster) -> what they hold (holdings) -> what is safe now (intermediate)
      -> who should own what (learners, two_steps; measured by target) -> further copies (standbys) -> assignments

The result depends on the snapshot alone, not on the order of members; given back to the members and computed again with
nothing changed it is the same, unless it asked members to join again.
"""

from __future__ import annotations

from collections.abc import Iterable

from assignor.holdings import Holdings
from assignor.intermediate import settle
from assignor.learners import plan_learners
from assignor.model import (
    PLAIN_REASON,
    Assignment,
    AssignmentError,
    Decision,
    GroupSnapshot,
    LeaderMemory,
    MemberId,
    RoundResult,
    TaskId,
    WorkerId,
)
from assignor.plan import Plan
from assignor.roster import Roster, Worker
from assignor.standbys import plan_standbys
from assignor.two_steps import plan_two_steps


def assign(snapshot: GroupSnapshot) -> RoundResult:
    """Assign all tasks of a round."""
    roster = Roster(snapshot)
    if roster.outvoted:
        return _hold_still(snapshot, roster)
    plan = Plan(snapshot, roster, Holdings(snapshot, roster))
    plan.rejoin.update(loser.rank for losers in plan.holdings.contested.values() for loser in losers)
    settle(plan)
    plan_learners(plan)
    plan_two_steps(plan)
    plan_standbys(plan)
    return RoundResult(_assignments(plan), _decisions(plan), _memory(plan))


def _assignments(plan: Plan) -> dict[MemberId, Assignment]:
    workers = plan.roster.workers
    active: list[list[TaskId]] = [[] for _ in workers]
    being_learned: list[list[TaskId]] = [[] for _ in workers]
    learners: list[list[TaskId]] = [[] for _ in workers]
    for task, owner in plan.owner.items():
        active[owner.rank].append(task)
    for task, learner in plan.learner.items():
        learners[learner.rank].append(task)
        owner_now = plan.owner.get(task)
        if owner_now is not None:
            being_learned[owner_now.rank].append(task)
    fence = _to_fence(plan)
    assignments = {
        worker.member: Assignment(
            active=frozenset(active[worker.rank]),
            being_learned=frozenset(being_learned[worker.rank]),
            learners=frozenset(learners[worker.rank]),
            standbys=frozenset(plan.standbys[worker.rank]),
            rejoin=worker.rank in plan.rejoin,
            fence=frozenset(fence.get(worker.rank, ())),
        )
        for worker in workers
    }
    return assignments | _refusals(plan.roster)


def _to_fence(plan: Plan) -> dict[int, set[WorkerId]]:
    """By rank of the worker that takes over: former owners that are gone. One that is back under a new member id fences
    its former self when it starts."""
    fence: dict[int, set[WorkerId]] = {}
    running = plan.holdings.running
    for task, former in plan.snapshot.memory.owners.items():
        if former not in plan.present and task not in running:
            owner = plan.owner.get(task)
            if owner is not None:
                fence.setdefault(owner.rank, set()).add(former)
    return fence


def _refusals(roster: Roster) -> dict[MemberId, Assignment]:
    return {
        member: Assignment(
            error=AssignmentError.TOPOLOGY_MISMATCH,
            error_text=(
                f"this member runs topology {said.topology.hex()}, the group runs {roster.topology.hex()}: "
                "stop the whole group to change its topology, or use another application.id"
            ),
        )
        for member, said in roster.strangers.items()
    }


def _decisions(plan: Plan) -> tuple[Decision, ...]:
    """One for each task, ascending. Made column by column, which halves the time of the largest groups' rounds."""
    ordered = plan.holdings.ordered
    cases = [plan.case[task] for task in ordered]
    return tuple(
        map(
            Decision,
            ordered,
            cases,
            _members(map(plan.owner.get, ordered)),
            _members(map(plan.holdings.holders.get, ordered)),
            _members(map(plan.learner.get, ordered)),
            [reason or PLAIN_REASON[case] for reason, case in zip(map(plan.reason.get, ordered), cases, strict=True)],
        )
    )


def _members(workers: Iterable[Worker | None]) -> list[MemberId | None]:
    return [worker.member if worker else None for worker in workers]


def _memory(plan: Plan) -> LeaderMemory:
    before = plan.snapshot.memory
    owners: dict[TaskId, WorkerId] = {}
    for task in plan.case:
        owner = plan.owner.get(task) or plan.holdings.holders.get(task)
        if owner is not None:
            owners[task] = owner.said.worker
        elif task in before.owners:
            owners[task] = before.owners[task]
    return LeaderMemory(
        participants={worker.member: worker.said.worker for worker in plan.roster.workers},
        owners=owners,
        leaving_deadlines_ms=_leaving_deadlines_ms(plan.snapshot, plan.roster.workers),
    )


def _leaving_deadlines_ms(snapshot: GroupSnapshot, workers: list[Worker]) -> dict[MemberId, int]:
    """When the patience of each leaving member ends: counted from the round in which it first said that it leaves."""
    known = snapshot.memory.leaving_deadlines_ms
    deadlines_ms: dict[MemberId, int] = {}
    for worker in workers:
        said = worker.said
        if said.leaving and said.leave_timeout_ms is not None:
            deadline_ms = snapshot.now_ms + said.leave_timeout_ms
            deadlines_ms[worker.member] = min(deadline_ms, known.get(worker.member, deadline_ms))
    return deadlines_ms


def _hold_still(snapshot: GroupSnapshot, roster: Roster) -> RoundResult:
    """The leader runs another topology than the group: it refuses itself, and leaves the others as they are.

    It does not know their tasks. Once it has stopped, a leader that does makes the next round.
    """
    taken: set[TaskId] = set()
    learned = {task for worker in roster.workers for task in worker.said.learners}
    assignments: dict[MemberId, Assignment] = {}
    for held in ("active", "suspended"):
        for worker in roster.workers:
            tasks = getattr(worker.said, held) - taken
            taken |= tasks
            before = assignments.get(worker.member, Assignment())
            active = before.active | tasks
            assignments[worker.member] = Assignment(
                active=active,
                being_learned=active & learned,
                learners=frozenset(worker.said.learners),
                standbys=frozenset(worker.said.standbys),
            )
    return RoundResult(assignments | _refusals(roster), (), snapshot.memory)
