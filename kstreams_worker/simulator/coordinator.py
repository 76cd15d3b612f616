"""The broker's side of a consumer group, as Kafka's classic group coordinator does it.

- A round begins when a member joins or leaves, when the leader joins again, or a follower with other metadata than before.
- It waits until all have joined again, at most for the rebalance timeout; who has not by then is out (a static member stays).
- The leader stays as long as it is a member and joins; else the first of those that have joined follows it.
- Between the joins and the leader's SyncGroup no offsets are taken. A round that begins then makes the waiting ones join again.
- A static member that is back within its session gets its old assignment, without a round.

Heartbeats are not events: a member that lives is heard. Who falls silent (`silent`) is out a session timeout after its last
heartbeat, unless it is heard again, and not while its join is held.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from kstreams_worker.machine import Machine, Table
from kstreams_worker.simulator.clock import Clock, Timer


class GroupState(Enum):
    """Where the group stands; Kafka's names are Empty, PreparingRebalance, CompletingRebalance, Stable."""

    EMPTY = auto()
    PREPARING = auto()
    COMPLETING = auto()
    STABLE = auto()


class GroupEvent(Enum):
    """What happens to the group."""

    CHANGED = auto()
    ALL_JOINED = auto()
    EMPTIED = auto()
    SYNCED = auto()


_S, _E = GroupState, GroupEvent

GROUP_TABLE: Table[GroupState, GroupEvent] = {
    _S.EMPTY: {_E.CHANGED: _S.PREPARING},
    _S.PREPARING: {_E.ALL_JOINED: _S.COMPLETING, _E.EMPTIED: _S.EMPTY},
    _S.COMPLETING: {_E.CHANGED: _S.PREPARING, _E.SYNCED: _S.STABLE},
    _S.STABLE: {_E.CHANGED: _S.PREPARING},
}


class Refusal(Enum):
    """Errors of the protocol that a member must cope with."""

    REBALANCE_IN_PROGRESS = auto()
    UNKNOWN_MEMBER_ID = auto()
    ILLEGAL_GENERATION = auto()


@dataclass(frozen=True, slots=True)
class Joined:
    """Answer to JoinGroup. `members` has everybody's metadata for the leader, and nothing for the others."""

    member_id: str
    generation: int
    leader: str
    members: Mapping[str, bytes]


JoinAnswer = Joined | Refusal
SyncAnswer = bytes | Refusal


class Client(Protocol):
    """What the broker needs of a member's process: when its next heartbeat is due, and what to answer it then."""

    def reachable(self) -> bool:
        """Whether the process lives and does not stand still."""
        ...

    def until_heartbeat_ms(self) -> float: ...
    def heartbeat_refused(self, refusal: Refusal) -> None: ...


@dataclass(slots=True, eq=False)
class Seat:
    """A member as the broker knows it."""

    member_id: str
    client: Client
    static_id: str | None
    metadata: bytes
    join: Callable[[JoinAnswer], None] | None = None
    """Set while its JoinGroup is held."""
    sync: Callable[[SyncAnswer], None] | None = None
    """Set while its SyncGroup is held."""
    assignment: bytes = b""
    silent: bool = False
    expiry: Timer | None = None


@dataclass(slots=True)
class GroupCoordinator:
    """One group. Requests are calls, made when they arrive; `answer` sends the answer on its way."""

    clock: Clock
    session_timeout_ms: int
    rebalance_timeout_ms: int
    initial_delay_ms: int
    generation: int = 0
    leader: str = ""
    seats: dict[str, Seat] = field(default_factory=dict)
    machine: Machine[GroupState, GroupEvent] = field(
        default_factory=lambda: Machine("group", GROUP_TABLE, GroupState.EMPTY)
    )
    _made: int = 0
    _deadline: Timer | None = None
    _not_before_ms: int = 0

    @property
    def state(self) -> GroupState:
        return self.machine.state

    # -- requests -------------------------------------------------------------------------------------------------

    def join(
        self,
        client: Client,
        member_id: str,
        static_id: str | None,
        metadata: bytes,
        answer: Callable[[JoinAnswer], None],
    ) -> None:
        """JoinGroup; an empty `member_id` asks for a new one."""
        seat = self.seats.get(member_id)
        if member_id and seat is None:
            answer(Refusal.UNKNOWN_MEMBER_ID)
        elif seat is None:
            self._newcomer(client, static_id, metadata, answer)
        else:
            same = seat.metadata == metadata
            seat.metadata = metadata
            round_is_on = self.state is GroupState.PREPARING
            if same and not round_is_on and (member_id != self.leader or self.state is GroupState.COMPLETING):
                answer(self._joined(seat))
            else:
                seat.join = answer
                self._changed()

    def _newcomer(
        self, client: Client, static_id: str | None, metadata: bytes, answer: Callable[[JoinAnswer], None]
    ) -> None:
        self._made += 1
        seat = Seat(
            f"{static_id or 'member'}-{self._made:03}", client, static_id, metadata, silent=not client.reachable()
        )
        former = next((each for each in self.seats.values() if static_id and each.static_id == static_id), None)
        if former is not None:
            self._forget(former)
            seat.assignment = former.assignment
            if self.leader == former.member_id:
                self.leader = seat.member_id
        self.seats[seat.member_id] = seat
        if seat.silent:
            self._expire_after(seat, self.session_timeout_ms)
        if former is not None and self.state is GroupState.STABLE:
            answer(Joined(seat.member_id, self.generation, former.member_id, {}))
            return
        seat.join = answer
        self._changed()

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None,
        answer: Callable[[SyncAnswer], None],
    ) -> None:
        """SyncGroup; the leader's has the assignments."""
        seat = self.seats.get(member_id)
        if seat is None:
            answer(Refusal.UNKNOWN_MEMBER_ID)
        elif generation != self.generation:
            answer(Refusal.ILLEGAL_GENERATION)
        elif self.state is GroupState.PREPARING:
            answer(Refusal.REBALANCE_IN_PROGRESS)
        elif self.state is GroupState.STABLE:
            answer(seat.assignment)
        else:
            seat.sync = answer
            if member_id == self.leader and assignments is not None:
                self._synced(assignments)

    def leave(self, member_id: str) -> None:
        """LeaveGroup: by the member itself, or by its supervisor."""
        if member_id in self.seats:
            self._remove(self.seats[member_id])

    def takes_commits_of(self, member_id: str) -> bool:
        """Whether this is a member: from all others the broker refuses offsets, whatever they still process."""
        return member_id in self.seats

    # -- silence ----------------------------------------------------------------------------------------------------

    def silent(self, client: Client, for_ms: float) -> None:
        """Nothing has been heard of a process for a while, nor will be until `heard` or `awake`."""
        for seat in self._seats_of(client):
            seat.silent = True
            self._expire_after(seat, self.session_timeout_ms - for_ms)

    def heard(self, client: Client, member_id: str) -> None:
        """A heartbeat after a silence."""
        self.awake(client)
        seat = self.seats.get(member_id)
        if seat is None:
            client.heartbeat_refused(Refusal.UNKNOWN_MEMBER_ID)
        elif self.state is GroupState.PREPARING and seat.join is None:
            client.heartbeat_refused(Refusal.REBALANCE_IN_PROGRESS)

    def awake(self, client: Client) -> None:
        """A process goes on after a silence; nothing is asked yet."""
        if not client.reachable():  # it has fallen silent again since
            return
        for seat in self._seats_of(client):
            seat.silent = False
            if seat.expiry is not None:
                seat.expiry.cancel()

    def _seats_of(self, client: Client) -> list[Seat]:
        return [seat for seat in self.seats.values() if seat.client is client]

    def _expire_after(self, seat: Seat, delay_ms: float) -> None:
        def expire() -> None:
            if seat.silent and seat.join is None and self.seats.get(seat.member_id) is seat:
                self._remove(seat)

        if seat.expiry is not None:
            seat.expiry.cancel()
        seat.expiry = self.clock.after(delay_ms, expire)

    # -- the group ----------------------------------------------------------------------------------------------------

    def _forget(self, seat: Seat) -> None:
        del self.seats[seat.member_id]
        if seat.expiry is not None:
            seat.expiry.cancel()

    def _remove(self, seat: Seat) -> None:
        self._forget(seat)
        self._tell_forgotten(seat)
        self._changed()

    def _changed(self) -> None:
        """A round is due. Begins one, or sees whether the one that is on can be ended."""
        if self.state is not GroupState.PREPARING:
            self._begin()
        if self.clock.now_ms >= self._not_before_ms and all(seat.join is not None for seat in self.seats.values()):
            self._all_joined()

    def _begin(self) -> None:
        was_empty = self.state is GroupState.EMPTY
        self.machine.fire(GroupEvent.CHANGED)
        for seat in self.seats.values():
            if seat.sync is not None:
                refused, seat.sync = seat.sync, None
                refused(Refusal.REBALANCE_IN_PROGRESS)
            if seat.join is None and not seat.silent:
                self._tell(seat)
        if was_empty:
            self._not_before_ms = self.clock.now_ms + self.initial_delay_ms
            self.clock.after(self.initial_delay_ms, self._look_again)
        self._deadline = self.clock.after(self.rebalance_timeout_ms, self._time_is_up)

    def _look_again(self) -> None:
        if self.state is GroupState.PREPARING:
            self._changed()

    def _tell(self, seat: Seat) -> None:
        def answer_heartbeat() -> None:
            waited_for = self.seats.get(seat.member_id) is seat and seat.join is None and not seat.silent
            if waited_for and self.state is GroupState.PREPARING:
                seat.client.heartbeat_refused(Refusal.REBALANCE_IN_PROGRESS)

        self.clock.after(seat.client.until_heartbeat_ms(), answer_heartbeat)

    def _time_is_up(self) -> None:
        for seat in [each for each in self.seats.values() if each.join is None and each.static_id is None]:
            self._forget(seat)
            self._tell_forgotten(seat)
        self._all_joined()

    def _tell_forgotten(self, seat: Seat) -> None:
        if not seat.silent:
            self.clock.after(
                seat.client.until_heartbeat_ms(), lambda: seat.client.heartbeat_refused(Refusal.UNKNOWN_MEMBER_ID)
            )

    def _all_joined(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if not self.seats:
            self.machine.fire(GroupEvent.EMPTIED)
            return
        joined = [seat for seat in self.seats.values() if seat.join is not None]
        if not joined:  # only static members, all of them silent: their sessions will end
            self._deadline = self.clock.after(self.rebalance_timeout_ms, self._time_is_up)
            return
        self.generation += 1
        self.machine.fire(GroupEvent.ALL_JOINED)
        if self.leader not in {seat.member_id for seat in joined}:
            self.leader = joined[0].member_id
        for seat in joined:
            answer, seat.join = seat.join, None
            assert answer is not None
            answer(self._joined(seat))
            if seat.silent:
                self._expire_after(seat, self.session_timeout_ms)

    def _joined(self, seat: Seat) -> Joined:
        leads = seat.member_id == self.leader
        members = {each.member_id: each.metadata for each in self.seats.values()} if leads else {}
        return Joined(seat.member_id, self.generation, self.leader, members)

    def _synced(self, assignments: Mapping[str, bytes]) -> None:
        self.machine.fire(GroupEvent.SYNCED)
        for seat in self.seats.values():
            seat.assignment = assignments.get(seat.member_id, b"")
            if seat.sync is not None:
                answer, seat.sync = seat.sync, None
                answer(seat.assignment)
