"""A round told again from what its members said and were given, as anybody finds it in the group's description.

Who had a task, who has it now and who learns it follows from the subscriptions and assignments. Only the case and the reason of
each decision do not, since they depend on the leader's memory and clock too: the leader writes these into its own
assignment (`reasons`), and `recount` puts the decisions together again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from assignor.model import (
    PLAIN_REASON,
    Assignment,
    AssignmentError,
    Decision,
    LagRecords,
    LeaderMemory,
    MemberId,
    MoveCase,
    Reason,
    RoundResult,
    Subscription,
    TaskId,
)

REASONS_MAX = 1000
"""Reasons written in full; in a larger round the rarest of each case are told together, to bound the metadata's size."""
UNTOLD = "one of too many reasons to tell"


def reasons(decisions: Iterable[Decision]) -> tuple[Reason, ...]:
    """What the leader has to add: all but tasks that plainly stay, those with most tasks first."""
    plain = (MoveCase.KEEP, PLAIN_REASON[MoveCase.KEEP])
    together: defaultdict[tuple[MoveCase, str], list[TaskId]] = defaultdict(list)
    for decision in decisions:
        key = decision.case, decision.reason
        if key != plain:
            together[key].append(decision.task)
    ordered = sorted(together.items(), key=lambda entry: (-len(entry[1]), entry[1]))
    told = [Reason(case, text, frozenset(tasks)) for (case, text), tasks in ordered[:REASONS_MAX]]
    untold: defaultdict[MoveCase, list[TaskId]] = defaultdict(list)
    for (case, _), tasks in ordered[REASONS_MAX:]:
        untold[case] += tasks
    return (*told, *(Reason(case, UNTOLD, frozenset(tasks)) for case, tasks in untold.items()))


def recount(said: Mapping[MemberId, Subscription], given: Mapping[MemberId, Assignment]) -> RoundResult:
    """The decisions of the round in which the members said this and were given that. The leader's memory is not known.

    Where several members claimed to run one task and it was taken from all of them, the first of them is named as
    its previous owner; the leader may have thought of another.
    """
    owners = {task: member for member, each in given.items() for task in each.active}
    learners = {task: member for member, each in given.items() for task in each.learners}
    told = {task: reason for each in given.values() for reason in each.reasons for task in reason.tasks}
    plain = Reason(MoveCase.KEEP, PLAIN_REASON[MoveCase.KEEP], frozenset())
    previous = _holders({member: said[member] for member in sorted(said) if _took_part(given.get(member))}, owners)
    decisions = []
    for task in sorted(owners.keys() | told.keys()):
        case, text, _ = told.get(task, plain)
        decisions.append(Decision(task, case, owners.get(task), previous.get(task), learners.get(task), text))
    return RoundResult(given, tuple(decisions), LeaderMemory())


def copy_lags(result: RoundResult, said: Mapping[MemberId, Subscription]) -> dict[TaskId, LagRecords]:
    """Records that those who learn a task, or have just got it, lacked when they joined the round, as far as they knew.

    One without a copy knows nothing, nor does one that has just begun: it says 0, and that it is not ready.
    """
    lags: dict[TaskId, LagRecords] = {}
    for decision in result.decisions:
        taker = decision.learner or decision.owner
        says = None if taker is None or taker == decision.previous else said.get(taker)
        if says is not None:
            for copies in (says.dormant, says.standbys, says.learners):
                copy = copies.get(decision.task)
                if copy is not None and (copy.lag or copy.ready):
                    lags[decision.task] = copy.lag
    return lags


def _took_part(given: Assignment | None) -> bool:
    return given is not None and given.error is not AssignmentError.TOPOLOGY_MISMATCH


def _holders(said: Mapping[MemberId, Subscription], owners: Mapping[TaskId, MemberId]) -> dict[TaskId, MemberId]:
    """Who ran each task, or had it suspended; of several claimants the one that has it now."""
    holders: dict[TaskId, MemberId] = {}
    running: set[TaskId] = set()
    for member, each in said.items():
        for task in each.active:
            if task not in running or owners.get(task) == member:
                holders[task] = member
        running |= each.active
    for member, each in said.items():
        for task in each.suspended - running:
            if task not in holders or owners.get(task) == member:
                holders[task] = member
    return holders
