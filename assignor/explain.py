"""A round in words: who moved where and why, what is still being learned, and what each move waits for.

`lines` is for people and logs, `report` for tools: plain dictionaries, lists, texts and numbers that any JSON writer takes.
Tasks that share a story are told together, so that a round that moves thousands of tasks stays readable.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from assignor.model import Decision, LagRecords, MemberId, MoveCase, RoundResult, Subscription, TaskId

Names = Mapping[MemberId, str]
Lags = Mapping[TaskId, LagRecords]
"""Records that who learns a task, or has just got it, lacked when it joined the round; what it did not know is left out."""

LINES_MAX = 50
"""Stories told in full; a screen or two. The rest is counted. `report` has all of them."""

_COUNTED_AS = {
    MoveCase.KEEP: "stay",
    MoveCase.LEARN: "are being learned",
    MoveCase.START: "started",
    MoveCase.GRANT: "moved to a ready learner",
    MoveCase.TAKE_OVER: "taken over from the dead",
    MoveCase.HAND_ON: "handed on",
    MoveCase.FORCE: "moved as patience ended",
    MoveCase.REVOKE: "taken away, to be handed on",
    MoveCase.WAIT: "wait",
}


def lines(result: RoundResult, names: Names | None = None, lags: Lags | None = None) -> list[str]:
    """A summary, then a line for each group of tasks that did not simply stay, and for each member that was refused.

    At most LINES_MAX of either.
    """
    stories = _stories(result.decisions)
    told = [_line(decision, tasks, names or {}, lags or {}) for decision, tasks in stories[:LINES_MAX]]
    untold = sum(len(tasks) for _, tasks in stories[LINES_MAX:])
    if untold:
        told.append(f"and {untold} more tasks")
    refusals = [f"{member} is refused: {text}" for member, text in _refused(result, names or {}).items()]
    if len(refusals) > LINES_MAX:
        refusals[LINES_MAX:] = [f"and {len(refusals) - LINES_MAX} more members are refused"]
    return [summary(result), *told, *refusals]


def summary(result: RoundResult) -> str:
    """One line: how many tasks ended in which case, and how many members were refused."""
    counts = Counter(decision.case for decision in result.decisions)
    parts = [f"{counts[case]} {text}" for case, text in _COUNTED_AS.items() if counts[case]]
    refused = sum(1 for each in result.assignments.values() if each.error.value)
    if refused:
        parts.append(f"{refused} members refused")
    return f"{len(result.decisions)} tasks: " + (", ".join(parts) or "nothing to assign")


def report(result: RoundResult, names: Names | None = None, lags: Lags | None = None) -> dict[str, Any]:
    """The same for tools: counts by case, and every task that did not simply stay with its move, reason and wait."""
    known = names or {}
    counts = Counter(decision.case.value for decision in result.decisions)
    return {
        "tasks": len(result.decisions),
        "cases": {case.value: counts[case.value] for case in MoveCase if counts[case.value]},
        "moves": [
            {
                "task": str(decision.task),
                "case": decision.case.value,
                "from": _name(decision.previous, known),
                "to": _name(decision.owner, known),
                "learner": _name(decision.learner, known),
                "reason": decision.reason,
                "waits_for": waits_for(decision, known),
                "lag_records": (lags or {}).get(decision.task),
            }
            for decision in result.decisions
            if decision.case is not MoveCase.KEEP
        ],
        "refused": _refused(result, known),
    }


def waits_for(decision: Decision, names: Names | None = None) -> str | None:
    """What has to happen before the task gets where it is heading; None if it is there."""
    known = names or {}
    if decision.learner is not None:
        return f"{_name(decision.learner, known)} to be ready"
    if decision.case is MoveCase.REVOKE:
        return f"{_name(decision.previous, known)} to commit it and join again"
    if decision.case is MoveCase.WAIT:
        return decision.reason
    return None


def member_names(said: Mapping[MemberId, Subscription]) -> dict[MemberId, str]:
    """How to call members in front of people: `pod-3/0` for the first worker on host or pod `pod-3`.

    Instances that share a name, or have none, show the first characters of their process id.
    """
    instances = Counter(name for name, _ in {(each.name, each.worker.instance) for each in said.values()})
    names = {}
    for member, each in said.items():
        parts = [each.name] if each.name else []
        if not each.name or instances[each.name] > 1:
            parts.append(each.worker.instance.hex()[:8])
        names[member] = f"{' '.join(parts)}/{each.worker.index}"
    return names


def task_ranges(tasks: Iterable[TaskId]) -> str:
    """Tasks in few characters: `0_1 0_4..0_7 1_0`."""
    ordered = enumerate(sorted(tasks))
    parts = []
    for _, group in groupby(ordered, key=lambda entry: (entry[1].subtopology, entry[1].partition - entry[0])):
        run = [task for _, task in group]
        parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}..{run[-1]}")
    return " ".join(parts)


def _stories(decisions: Iterable[Decision]) -> list[tuple[Decision, list[TaskId]]]:
    """Decisions that differ in nothing but the task, together; those with most tasks first."""
    together: defaultdict[Decision, list[TaskId]] = defaultdict(list)
    nowhere = TaskId(0, 0)
    for decision in decisions:
        if decision.case is not MoveCase.KEEP:
            together[decision._replace(task=nowhere)].append(decision.task)
    return sorted(together.items(), key=lambda story: (-len(story[1]), story[1]))


def _refused(result: RoundResult, names: Names) -> dict[str, str]:
    return {
        names.get(member, member): given.error_text
        for member, given in sorted(result.assignments.items())
        if given.error.value
    }


def _line(decision: Decision, tasks: list[TaskId], names: Names, lags: Lags) -> str:
    owner, previous = _name(decision.owner, names), _name(decision.previous, names)
    if decision.case is MoveCase.LEARN:
        place = f"stays at {owner}"
    elif owner is None:
        place = f"taken from {previous}" if previous else "has no owner"
    elif previous is None or previous == owner:
        place = f"goes to {owner}"
    else:
        place = f"moves from {previous} to {owner}"
    waits = waits_for(decision, names)
    wait = f"; waits for {waits}" if waits and waits != decision.reason else ""
    if decision.learner is not None:
        wait += _lag_text(tasks, lags) or ", which has just begun"
    elif previous != owner:
        wait += _lag_text(tasks, lags)
    return f"{task_ranges(tasks)} {place} ({decision.case.value}): {decision.reason}{wait}"


def _lag_text(tasks: list[TaskId], lags: Lags) -> str:
    known = [lags[task] for task in tasks if task in lags]
    if not known:
        return ""
    unknown = f", {len(tasks) - len(known)} tasks just begun" if len(known) < len(tasks) else ""
    return f", {sum(known)} records behind when it joined{unknown}"


def _name(member: MemberId | None, names: Names) -> str | None:
    return None if member is None else names.get(member, member)
