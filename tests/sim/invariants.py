"""What must hold after every round, judged from a round's input and output alone.

Shares no code with the assignor beyond its values, so that a mistake there is not repeated here. Each function returns the
violations as sentences; `violations` returns all of them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from assignor.model import Assignment, GroupSnapshot, InstanceId, MemberId, MoveCase, RoundResult, Subscription, TaskId


@dataclass(frozen=True)
class Facts:
    """A round, turned round: by task instead of by member."""

    snapshot: GroupSnapshot
    result: RoundResult
    members: Mapping[MemberId, Subscription]
    """Members with the group's topology."""
    receiving: frozenset[InstanceId]
    running: Mapping[TaskId, list[MemberId]]
    suspended: Mapping[TaskId, list[MemberId]]
    owners: Mapping[TaskId, list[MemberId]]
    learners: Mapping[TaskId, list[MemberId]]
    standbys: Mapping[TaskId, list[MemberId]]

    def instance(self, member: MemberId) -> InstanceId:
        return self.snapshot.members[member].worker.instance

    def assignment(self, member: MemberId) -> Assignment:
        return self.result.assignments[member]

    def stateful(self) -> Iterator[TaskId]:
        return (task for task, stateful in self.snapshot.tasks.items() if stateful)

    def contested(self, task: TaskId) -> bool:
        """Several run it: all but one have to close it before anything else can be done about it."""
        return len(self.running.get(task, [])) > 1

    def refused(self) -> set[MemberId]:
        return self.snapshot.members.keys() - self.members.keys()


def facts(snapshot: GroupSnapshot, result: RoundResult) -> Facts:
    refused = {member for member, given in result.assignments.items() if given.error.value}
    members = {member: said for member, said in snapshot.members.items() if member not in refused}
    leaving = {said.worker.instance for said in members.values() if said.leaving}

    def by_task(sets: Mapping[MemberId, object]) -> dict[TaskId, list[MemberId]]:
        found: defaultdict[TaskId, list[MemberId]] = defaultdict(list)
        for member, tasks in sets.items():
            for task in tasks:  # type: ignore[attr-defined]
                found[task].append(member)
        return dict(found)

    given = result.assignments
    return Facts(
        snapshot=snapshot,
        result=result,
        members=members,
        receiving=frozenset(said.worker.instance for said in members.values()) - leaving,
        running=by_task({member: said.active for member, said in members.items()}),
        suspended=by_task({member: said.suspended for member, said in members.items()}),
        owners=by_task({member: each.active for member, each in given.items()}),
        learners=by_task({member: each.learners for member, each in given.items()}),
        standbys=by_task({member: each.standbys for member, each in given.items()}),
    )


def violations(snapshot: GroupSnapshot, result: RoundResult) -> list[str]:
    """Everything that is wrong with a round."""
    if result.assignments.keys() != snapshot.members.keys():
        return ["not every member has an assignment"]
    known = facts(snapshot, result)
    checks = (one_owner, no_gap, learning, moves, leaving, standbys, disks, fencing, explanation, memory)
    return [sentence for check in checks for sentence in check(known)]


def one_owner(known: Facts) -> Iterator[str]:
    """I1, I2: at most one owner, and never another than one that still runs the task."""
    for task, owners in known.owners.items():
        if task not in known.snapshot.tasks:
            yield f"{task} is no task of the topology, {owners} got it"
        if len(owners) > 1:
            yield f"I1: {task} has owners {owners}"
        runners = known.running.get(task, [])
        if runners and owners[0] not in runners:
            yield f"I1: {task} is given to {owners} while {runners} run it"
        strangers = [m for m in known.refused() if task in known.snapshot.members[m].active]
        if strangers and not runners and not known.suspended.get(task):
            yield f"I1: {task} is given to {owners} while {strangers} of another topology run it"


def no_gap(known: Facts) -> Iterator[str]:
    """I2: no task without owner but in the gap of a two-step move, or where nobody may have it."""
    for task in known.snapshot.tasks:
        if task in known.owners or not known.receiving:
            continue
        runners = known.running.get(task, [])
        if any(
            task in said.active | said.suspended for m, said in known.snapshot.members.items() if m in known.refused()
        ):
            continue
        if not any(known.assignment(runner).rejoin for runner in runners):
            yield f"I2: {task} has no owner, and no owner was asked to hand it on"


def learning(known: Facts) -> Iterator[str]:
    """I3: one learner and one active on different instances, and the active is told."""
    for task, learners in known.learners.items():
        if not known.snapshot.tasks.get(task, False):
            yield f"I3: {task} has no state to learn"
        if len(learners) > 1:
            yield f"I3: {task} has learners {learners}"
        owners = known.owners.get(task, [])
        if not owners and not any(known.members[runner].leaving for runner in known.running.get(task, [])):
            yield f"I3: {task} is learned by {learners} and active nowhere"
        for owner in owners:
            if task not in known.assignment(owner).being_learned:
                yield f"I3: {owner} is not told that {task} is being learned"
            if known.instance(owner) in map(known.instance, learners):
                yield f"I3: {task} is active and learned on one instance"
    for member, given in known.result.assignments.items():
        for task in given.being_learned:
            if task not in given.active or task not in known.learners:
                yield f"I3: {member} is told that {task} is being learned, but it is not"


def moves(known: Facts) -> Iterator[str]:
    """I4: a task leaves its owner only for a ready learner, after being revoked, or when patience has ended."""
    deadlines_ms = known.snapshot.memory.leaving_deadlines_ms
    for task, holders in known.suspended.items():
        owners = known.owners.get(task, [])
        if task in known.running or not owners or owners[0] in holders:
            continue
        new = known.members[owners[0]]
        if task in new.learners and new.learners[task].ready:
            continue
        if any(deadlines_ms.get(m, math.inf) <= known.snapshot.now_ms and known.members[m].leaving for m in holders):
            continue
        learned = [
            m
            for m, said in known.members.items()
            if task in said.learners and known.instance(m) in known.receiving - set(map(known.instance, holders))
        ]
        same_instance = known.instance(owners[0]) in map(known.instance, holders)
        if not known.snapshot.tasks[task] or (same_instance and not learned):
            continue
        yield f"I4: {task} moved from {holders} to {owners[0]}, which is not ready"


def leaving(known: Facts) -> Iterator[str]:
    """I7: nothing new for those that leave; and all they have is learned, or taken from them."""
    for member, said in known.members.items():
        given = known.assignment(member)
        if said.worker.instance in known.receiving:
            continue
        if not given.active <= said.active | said.suspended or given.learners or given.standbys:
            yield f"I7: {member} leaves and was given tasks"
        if known.receiving:
            for task in given.active:
                if not known.snapshot.tasks[task]:
                    if task in said.active or said.leaving:
                        yield f"{member} leaves and keeps {task}, which needs no learner"
                elif task not in known.learners and not known.contested(task):
                    yield f"{member} leaves, and nobody learns {task}"


def standbys(known: Facts) -> Iterator[str]:
    """I8, and as many copies as there should and can be."""
    wanted = known.snapshot.settings.num_standby_tasks
    for task, holders in known.standbys.items():
        if not known.snapshot.tasks.get(task, False):
            yield f"{task} has no state to stand by for"
        places = Counter(map(known.instance, holders + known.owners.get(task, []) + known.learners.get(task, [])))
        if any(places[known.instance(holder)] > 1 for holder in holders):
            yield f"I8: {task} has copies on one instance"
        if len(holders) > wanted:
            yield f"{task} has {len(holders)} standbys, wanted {wanted}"
    for task in known.stateful():
        if known.contested(task):
            continue
        copies = len(known.standbys.get(task, [])) + len(known.learners.get(task, []))
        at = {
            known.instance(m)
            for m in known.owners.get(task) or known.running.get(task) or known.suspended.get(task) or []
        }
        possible = min(wanted, len(known.receiving - at))
        if copies < possible:
            yield f"{task} has {copies} further copies, {possible} are possible"


def disks(known: Facts) -> Iterator[str]:
    """State that one worker has open is not given to another worker of its instance in the same round: one must close it
    before the other can open it."""
    opened: defaultdict[tuple[InstanceId, TaskId], list[MemberId]] = defaultdict(list)
    for member, said in known.members.items():
        for task in said.active | said.suspended | said.learners.keys() | said.standbys.keys():
            opened[known.instance(member), task].append(member)
    for member, given in known.result.assignments.items():
        for task in known.snapshot.members[member].active & (given.learners | given.standbys):
            yield f"{member} runs {task} and is told to be a copy of it: it has to stop first"
        for task in given.active | given.learners | given.standbys:
            by = opened.get((known.instance(member), task), [])
            if known.snapshot.tasks.get(task, False) and by and member not in by:
                yield f"{task} is given to {member} while {by} on its instance have it open"


def fencing(known: Facts) -> Iterator[str]:
    """Whoever takes a task of a worker that is gone fences that worker first; nobody fences one that is there."""
    present = {said.worker for said in known.snapshot.members.values()}
    for member, given in known.result.assignments.items():
        if given.fence & present:
            yield f"{member} is to fence workers that are there"
    for task, former in known.snapshot.memory.owners.items():
        if former in present or task in known.running:
            continue
        for owner in known.owners.get(task, []):
            if former not in known.assignment(owner).fence:
                yield f"{owner} takes {task} without fencing its former owner"


def explanation(known: Facts) -> Iterator[str]:
    """Every task has one decision, and it says what was done."""
    decided = Counter(decision.task for decision in known.result.decisions)
    if decided != Counter(iter(known.snapshot.tasks)):
        yield "not every task has exactly one decision"
    for decision in known.result.decisions:
        owners = known.owners.get(decision.task, [])
        if owners != ([decision.owner] if decision.owner else []):
            yield f"{decision.task}: decided for {decision.owner}, given to {owners}"
        learners = known.learners.get(decision.task, [])
        if learners != ([decision.learner] if decision.learner else []):
            yield f"{decision.task}: learner {decision.learner} decided, {learners} told"
        stays = decision.case in (MoveCase.KEEP, MoveCase.LEARN)
        held = known.running.get(decision.task, []) + known.suspended.get(decision.task, [])
        if len(held) < 2 and stays != (decision.owner in held):
            yield f"{decision.task}: {decision.case} with owner {decision.owner}, held by {held}"
        if not decision.reason:
            yield f"{decision.task}: no reason"


def memory(known: Facts) -> Iterator[str]:
    """The leader remembers who took part, and who owns what."""
    remembered = known.result.memory
    if remembered.participants != {member: said.worker for member, said in known.members.items()}:
        yield "participants are not remembered"
    for task, owners in known.owners.items():
        if remembered.owners.get(task) != known.snapshot.members[owners[0]].worker:
            yield f"the owner of {task} is not remembered"


def balanced(snapshot: GroupSnapshot, result: RoundResult) -> list[str]:
    """For a group at rest: each kind of task is within the range, or no single move improves its balance; and the workers of
    one instance differ by one task at most."""
    known = facts(snapshot, result)
    out = []
    capacity = {
        instance: max([1] + [said.capacity for said in known.members.values() if said.worker.instance == instance])
        for instance in known.receiving
    }
    for stateful in (True, False):
        load: Counter[InstanceId] = Counter()
        by_worker: Counter[MemberId] = Counter()
        for task, owners in known.owners.items():
            at = (known.learners.get(task) or owners)[0]
            if known.snapshot.tasks[task] is stateful and known.instance(at) in known.receiving:
                load[known.instance(at)] += 1
                by_worker[at] += 1
        total = load.total()
        for instance in known.receiving:
            workers = [by_worker[m] for m in known.members if known.instance(m) == instance]
            if max(workers) - min(workers) > 1:
                out.append(f"workers of one instance have {workers} tasks (stateful: {stateful})")
        share = {each: total * capacity[each] / sum(capacity.values()) for each in capacity}
        slack = snapshot.settings.imbalance_percentage
        in_range = all(
            min(math.floor(share[each] + 1e-9), share[each] * (1 - slack) - 1e-9)
            <= load[each]
            <= max(math.ceil(share[each] - 1e-9), share[each] * (1 + slack) + 1e-9)
            for each in capacity
        )
        improvable = any(
            (2 * load[a] - 1) * capacity[b] > (2 * load[b] + 1) * capacity[a]
            for a in capacity
            for b in capacity
            if load[a]
        )
        if not in_range and improvable:
            out.append(
                f"loads {sorted(load.values())} of capacities {sorted(capacity.values())} (stateful: {stateful})"
            )
    return out
