"""Walk-throughs of the pure assignor: members that do what they are told, compared with tables round by round."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from harness.round_table import Row, Rows, renamed, renamings, rows, show, without_revoked

from assignor.assign import assign
from assignor.model import (
    AssignorSettings,
    CopyState,
    GroupSnapshot,
    InstanceId,
    LagRecords,
    LeaderMemory,
    MemberId,
    MoveCase,
    RoundResult,
    Subscription,
    TaskId,
    WorkerId,
)

FAR_BEHIND = LagRecords(1_000_000)


@dataclass
class Walk:
    """A group of single workers, one to an instance, walked through rounds.

    `start` reads `S1[T1, T2], S2[T3]`; all of its tasks are stateful. After `round` calls, `check` compares all tables.
    """

    start: str
    settings: AssignorSettings = AssignorSettings()
    stateful: bool = True
    alike: tuple[str, ...] = ()
    """Members that the tables may exchange."""
    members: dict[str, Subscription] = field(default_factory=dict)
    memory: LeaderMemory = field(default_factory=LeaderMemory)
    now_ms: int = 0
    last: RoundResult | None = None
    rejoin: set[str] = field(default_factory=set)
    _pairs: list[tuple[Rows, Rows]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.groups = {member: re.findall(r"\w+", names) for member, names in re.findall(r"(\w+)\[(.*?)\]", self.start)}
        self.tasks = {task(name): self.stateful for names in self.groups.values() for name in names}
        for member, names in self.groups.items():
            self.joins(member)
            self.members[member] = replace(self.members[member], active=frozenset(map(task, names)))
        self.memory = LeaderMemory(
            participants={MemberId(member): said.worker for member, said in self.members.items()},
            owners={each: said.worker for said in self.members.values() for each in said.active},
        )

    def joins(self, *names: str) -> None:
        """New members appear."""
        for name in names:
            worker = WorkerId(InstanceId(name.encode().ljust(16, b"\0")), 0)
            self.members[name] = Subscription(worker, b"topology", name=name)

    def crashes(self, *names: str) -> None:
        """Members are gone at once."""
        for name in names:
            del self.members[name]

    def leaves(self, *names: str, timeout_ms: int | None = None) -> None:
        """Members say that they are leaving."""
        for name in names:
            self.members[name] = replace(self.members[name], leaving=True, leave_timeout_ms=timeout_ms)

    def stays(self, *names: str) -> None:
        """They were told to stay after all."""
        for name in names:
            self.members[name] = replace(self.members[name], leaving=False, leave_timeout_ms=None)

    def ready(self, *names: str, only: str = "") -> None:
        """Members have restored what they learn (or `only` one task of it)."""
        for name in names:
            said = self.members[name]
            restored = {
                each: CopyState(LagRecords(0), True) if only in ("", f"T{each.partition}") else state
                for each, state in said.learners.items()
            }
            self.members[name] = replace(said, learners=restored)

    def new_leader(self) -> None:
        """Another member leads, and knows nothing of earlier rounds."""
        self.memory = LeaderMemory()

    def round(self, assigns: str, status: str | None = None) -> None:
        """One round: what members say of themselves (if the table shows it), and what the leader assigns."""
        self.suspend()
        if status is not None:
            self._pairs.append((rows(status), self._status()))
        result = self.assign()
        given = {
            member: Row(assigned=names(each.active), learning=names(each.learners))
            for member, each in result.assignments.items()
        }
        self._pairs.append((without_revoked(rows(assigns)), given))
        self.follow(result)

    def suspend(self) -> None:
        """What every member does when a round begins: suspend the tasks that are being learned."""
        if self.last is None:
            return
        for name, said in self.members.items():
            given = self.last.assignments.get(MemberId(name))
            if given is not None:
                learned = given.being_learned & said.active
                self.members[name] = replace(said, active=said.active - learned, suspended=said.suspended | learned)

    def assign(self) -> RoundResult:
        """The leader's part."""
        members = {MemberId(name): said for name, said in self.members.items()}
        return assign(GroupSnapshot(members, self.tasks, self.settings, self.memory, self.now_ms))

    def follow(self, result: RoundResult) -> None:
        """Members do what they are told; a member that leaves and has nothing left is gone."""
        self.last = result
        self.memory = result.memory
        self.rejoin = {member for member, given in result.assignments.items() if given.rejoin}
        for name, said in list(self.members.items()):
            given = result.assignments[MemberId(name)]
            had = {**said.dormant, **said.standbys, **said.learners}
            had |= dict.fromkeys(said.active | said.suspended, CopyState(LagRecords(0)))
            used = given.active | given.learners | given.standbys
            fresh = CopyState(FAR_BEHIND)
            self.members[name] = replace(
                said,
                active=given.active,
                suspended=frozenset(),
                learners={each: replace_ready(had.get(each, fresh)) for each in given.learners},
                standbys={each: had.get(each, fresh) for each in given.standbys},
                dormant={each: state for each, state in had.items() if each not in used},
            )
            if said.leaving and not given.active and not given.rejoin:
                del self.members[name]

    def cases(self) -> dict[str, MoveCase]:
        """How each task got where it is in the last round."""
        assert self.last is not None
        return {f"T{decision.task.partition}": decision.case for decision in self.last.decisions}

    def owned(self) -> dict[str, str]:
        """Each member's active tasks, for short comparisons."""
        return {member: " ".join(sorted(names(said.active))) for member, said in self.members.items()}

    def check(self) -> None:
        """All tables hold, up to a renaming of tasks that one member owned and of members that are alike."""
        for renaming in renamings([*self.groups.values(), self.alike]):
            if all(renamed(expected, renaming) == actual for expected, actual in self._pairs):
                return
        shown = [f"expected {show(expected)}\n  actual {show(actual)}" for expected, actual in self._pairs]
        raise AssertionError("the tables do not hold:\n" + "\n".join(shown))

    def _status(self) -> Rows:
        return {
            member: Row(names(said.active), names(said.suspended), names(frozenset(said.learners)))
            for member, said in self.members.items()
        }


def task(name: str) -> TaskId:
    """The task that the tables call `T3`."""
    return TaskId(0, int(name[1:]))


def names(tasks: frozenset[TaskId]) -> frozenset[str]:
    """Tasks as the tables call them."""
    return frozenset(f"T{each.partition}" for each in tasks)


def replace_ready(state: CopyState) -> CopyState:
    """A copy that just became a learner has yet to find out that it is ready."""
    return CopyState(state.lag)
