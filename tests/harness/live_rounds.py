"""The rounds of real instances, as the broker describes them and the instances log them, in the form of tables."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from types import TracebackType
from typing import Self

import psutil

from assignor.model import InstanceId, TaskId
from harness.application import Application
from harness.instances import Instance
from harness.round_table import Row, Rows, renamed, renamings, rows, show, without_revoked
from kstreams_worker.errors import GroupError
from kstreams_worker.group.client import ROUND_STATES, GroupClient
from state.locks import FileLock


class LiveRounds:
    """Instances of one worker, S1, S2 and so on, walked through rounds.

    Their process ids ascend with their numbers, which makes the leader's choice among members that are alike known. T1 is
    the task of partition 0. Every `round` waits for what it expects and keeps what was; `check` compares all of it.
    """

    def __init__(self, app: Application) -> None:
        self._app = app
        self._closing = contextlib.ExitStack()
        self._instances: dict[str, Instance] = {}
        self._locks: dict[str, list[FileLock]] = {}
        self._said: list[tuple[Rows, Rows]] = []
        self._given: list[Rows] = []

    def __enter__(self) -> Self:
        config = {"bootstrap_servers": self._app.kafka.bootstrap_servers}
        self.client = self._closing.enter_context(GroupClient.connect(config))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closing.close()

    def __getitem__(self, name: str) -> Instance:
        return self._instances[name]

    # -- what happens -------------------------------------------------------------------------------------------------

    def joins(self, *names: str, gated: bool = False, **settings: object) -> None:
        """Start instances. Those that are gated restore nothing until `open`.

        Their tasks' locks are held meanwhile, as another worker of the same instance would that has yet to close its state.
        """
        for name in names:
            number = len(self._instances) + 1
            state = self._app.directory / f"instance-{number}-state" / self._app.id
            state.mkdir(parents=True)
            (state / "process-id").write_text(str(uuid.UUID(bytes=bytes([number] * 16))))
            if gated:
                self._locks[name] = [
                    FileLock(state / "locks" / f"0_{partition}.lock") for partition in range(self._app.partitions)
                ]
                for lock in self._locks[name]:
                    lock.acquire("a task of a gated instance")
                    self._closing.callback(lock.release)
            self._instances[name] = self._app.start(**settings)

    def open(self, *names: str) -> None:
        """Let these instances restore what they learn."""
        for name in names:
            for lock in self._locks[name]:
                lock.release()

    @contextlib.contextmanager
    def holding_rounds(self, name: str) -> Iterator[None]:
        """Freeze an instance's worker, without which no round ends, for the length of a `with` block."""
        frozen = [psutil.Process(pid) for pid in self._instances[name].worker_pids()]
        for process in frozen:
            process.suspend()
        try:
            yield
        finally:
            for process in frozen:
                process.resume()

    def until_members(self, count: int) -> None:
        """Wait until so many have joined, or ask to."""
        self._app.until(lambda: len(self.client.describe(self._app.id).members) == count, f"{count} members")

    # -- what is expected ---------------------------------------------------------------------------------------------

    def round(self, assigns: str, status: str | None = None) -> None:
        """Wait for a round with this result, but for names; keep it, and what members said in it, to be compared.

        Every member must have suspended nothing but what it was told that others learn.
        """
        expected = without_revoked(rows(assigns))

        said: Rows = {}
        given: Rows = {}

        def settled() -> bool:
            nonlocal said, given
            said, given = self._described()
            return _shape(given) == _shape(expected)

        self._app.until(settled, f"a round that assigns {show(expected)}")
        self._app.until(lambda: given in self._logged(), "all members log the round")
        logged = self._logged()
        before = logged[: len(logged) - 1 - logged[::-1].index(given)]
        learned = frozenset(task for row in before[-1].values() for task in row.learning) if before else frozenset()
        for member, row in said.items():
            assert row.revoked <= learned, f"{member} has suspended {row.revoked}, of which others learn {learned}"
        self._given.append(expected)
        if status is not None:
            self._said.append((rows(status), said))

    def check(self, groups: Sequence[Sequence[str]], *, in_steps: bool = False) -> None:
        """All rounds were those expected, with one renaming of tasks and members within `groups` for all of them.

        Rounds that change nothing may lie between them. An owner that knows which learners are ready suspends only these
        of the tasks that the tables show as revoked. `in_steps`: what changes hands in one round of the tables may
        do so in several, as it is learned first and learners are not ready at the same moment.
        """
        logged = [table for table, _ in groupby(self._logged())]
        for renaming in renamings(groups):
            expected = [renamed(table, renaming) for table in self._given]
            if _follows(logged, expected, in_steps) and all(
                _said_so(renamed(table, renaming), said) for table, said in self._said
            ):
                return
        told = [f"expected {show(table)}" for table in self._given] + [f"was {show(table)}" for table in logged]
        told += [f"to be said {show(table)}\nwas said {show(said)}" for table, said in self._said]
        raise AssertionError("the tables do not hold:\n" + "\n".join(told))

    # -- what was -----------------------------------------------------------------------------------------------------

    def _described(self) -> tuple[Rows, Rows]:
        """What members said and were given in the last round; nothing while one is on."""
        said: Rows = {}
        given: Rows = {}
        group = None
        with contextlib.suppress(GroupError):  # there is none before the first has joined
            group = self.client.describe(self._app.id)
        if group is None or group.state in ROUND_STATES:
            return said, given
        numbers = {InstanceId(bytes([index + 1] * 16)): name for index, name in enumerate(self._instances)}
        for member in group.members:
            assert member.subscription is not None
            assert member.assignment is not None
            name = numbers[member.subscription.worker.instance]
            says, gets = member.subscription, member.assignment
            said[name] = Row(_names(says.active), _names(says.suspended), _names(says.learners))
            given[name] = Row(assigned=_names(gets.active), learning=_names(gets.learners))
        return said, given

    def _logged(self) -> list[Rows]:
        """The results of all rounds so far, as the members logged them."""
        by_generation: dict[int, Rows] = {}
        for name, instance in self._instances.items():
            for line in instance.log("round"):
                row = Row(assigned=_parsed(line["active"]), learning=_parsed(line["learning"]))
                by_generation.setdefault(line["generation"], {})[name] = row
        return [table for _, table in sorted(by_generation.items())]


def _names(tasks: Iterable[TaskId]) -> frozenset[str]:
    return frozenset(f"T{task.partition + 1}" for task in tasks)


def _parsed(tasks: str) -> frozenset[str]:
    return frozenset(f"T{int(task.partition('_')[2]) + 1}" for task in tasks.split())


def _shape(table: Rows) -> dict[str, tuple[int, int]]:
    return {member: (len(row.assigned), len(row.learning)) for member, row in table.items()}


def _said_so(table: Rows, said: Rows) -> bool:
    """Whether members had and learned what the table shows, and had suspended no more than that."""
    return table.keys() == said.keys() and all(
        row.assigned | row.revoked == said[name].assigned | said[name].revoked
        and said[name].revoked <= row.revoked
        and said[name].learning == row.learning
        for name, row in table.items()
    )


def _follows(logged: list[Rows], expected: list[Rows], in_steps: bool) -> bool:
    """Whether the rounds are the expected ones, one after the other; `in_steps` with others on the way between two."""
    reached = -1
    for table in logged:
        if reached + 1 < len(expected) and table == expected[reached + 1]:
            reached += 1
        elif not (in_steps and 0 <= reached < len(expected) - 1 and _between(table, *expected[reached : reached + 2])):
            return False
    return reached == len(expected) - 1


def _between(table: Rows, before: Rows, after: Rows) -> bool:
    """Whether every task is where it was, or where it is to be or learned there, and runs exactly once."""
    running = [task for row in table.values() for task in row.assigned]
    if sorted(running) != sorted(task for row in before.values() for task in row.assigned):
        return False
    nothing = Row()
    for name, row in table.items():
        was, will = before.get(name, nothing), after.get(name, nothing)
        if not (
            row.assigned <= was.assigned | will.assigned
            and row.learning <= was.learning | will.learning | will.assigned
        ):
            return False
    return True
