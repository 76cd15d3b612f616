"""The member's side of the group protocol, on kafka-python's coordinator.

What this adds to the base class: protocol type "stream"; the metadata of a join is taken at the moment of the join; a
membership that was lost is reported before the next join, so that no join ever claims tasks of a generation that is over; and
the member's state is a table (`states.py`) that other threads may read.

All methods here run on the I/O thread. Nothing in them waits for the loop except `on_prepare` and `on_lost`, which are
coroutines, so heartbeats go on meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from kafka.coordinator.base import BaseCoordinator
from kafka.net.wakeup_notifier import WakeupNotifier

from kstreams_worker.group.events import GroupGeneration
from kstreams_worker.group.states import MemberEvent, MemberState, member_machine

PROTOCOL_NAME = "stream"


@dataclass(frozen=True)
class CoordinatorHooks:
    """What the coordinator asks of its owner. `metadata` and `assign` must not block; the others are awaited."""

    metadata: Callable[[], bytes]
    assign: Callable[[str, dict[str, bytes], int], dict[str, bytes]]
    """(leader's member id, metadata by member id, generation) -> assignment by member id."""
    on_prepare: Callable[[], Awaitable[None]]
    on_lost: Callable[[str], Awaitable[None]]
    on_assigned: Callable[[GroupGeneration, bytes, bool, float], None]
    on_member_id: Callable[[str], None]
    on_round_noticed: Callable[[], None] = lambda: None
    """The broker says that a round is on."""
    on_joining_anew: Callable[[], None] = lambda: None
    """About to join as a member that the others do not know."""


class StreamCoordinator(BaseCoordinator):  # type: ignore[misc]
    """One member of the group."""

    def __init__(self, client: Any, hooks: CoordinatorHooks, protocol_type: str, **config: Any) -> None:
        self._hooks = hooks
        self._protocol_type = protocol_type
        self.machine = member_machine()
        self.is_leader = False
        self._lost_because: str | None = None
        self._round_started = 0.0
        self._dead = False
        self.wakeup = WakeupNotifier(client._net)
        super().__init__(client, **config)

    @property
    def membership(self) -> GroupGeneration:
        """Readable from any thread: the base class replaces the generation, it never changes one."""
        current = self._generation
        return GroupGeneration(current.generation_id, current.member_id, self.group_instance_id)

    def protocol_type(self) -> str:
        return self._protocol_type

    def group_protocols(self) -> list[tuple[str, bytes]]:
        return [(PROTOCOL_NAME, self._hooks.metadata())]

    def request_rejoin(self) -> None:
        """Called by the base class when the broker says that a round is on."""
        if not self.rejoin_needed:
            self._hooks.on_round_noticed()
        self.join_again()

    def join_again(self) -> None:
        """Join as soon as possible. On the I/O thread."""
        super().request_rejoin()
        if self._round_started == 0.0:
            self._round_started = time.monotonic()
        self.wakeup.notify()

    def reset_generation(self, member_id: str = "") -> None:
        """Called by the base class whenever the broker says that this membership is over."""
        if not self._generation.is_lost():
            self._lost_because = f"generation {self._generation.generation_id} is over for {self._generation.member_id}"
        super().reset_generation(member_id)
        self._hooks.on_member_id(member_id)
        self.wakeup.notify()

    async def _on_join_prepare_async(self, generation: int, member_id: str, timeout_ms: float | None = None) -> None:
        if self._round_started == 0.0:
            self._round_started = time.monotonic()
        await self._tell_lost()
        if self.machine.allows(MemberEvent.ROUND):
            self.machine.fire(MemberEvent.ROUND)
        await self._hooks.on_prepare()
        if self.machine.allows(MemberEvent.PREPARED):
            self.machine.fire(MemberEvent.PREPARED)

    async def _do_join_and_sync_async(self) -> bytes:
        # A retry after the membership was lost in mid-round comes here without a new prepare.
        await self._tell_lost()
        if self.machine.state is MemberState.UNJOINED:
            self.machine.fire(MemberEvent.ROUND)
            self.machine.fire(MemberEvent.PREPARED)
        elif self.machine.state is not MemberState.JOINING:
            self.machine.fire(MemberEvent.RETRY)
        if self._generation.has_member_id() and self._generation.is_lost() and self.is_dynamic_member():
            self._hooks.on_joining_anew()
        assignment: bytes = await super()._do_join_and_sync_async()
        return assignment

    async def _tell_lost(self) -> None:
        while self._lost_because is not None:
            reason, self._lost_because = self._lost_because, None
            self.machine.fire(MemberEvent.LOST)
            await self._hooks.on_lost(reason)

    def _process_join_group_response(self, response: Any, send_time: float) -> Any:
        answer = super()._process_join_group_response(response, send_time)
        self.is_leader = answer.leader == answer.member_id
        self._hooks.on_member_id(answer.member_id)
        self.machine.fire(MemberEvent.JOINED)
        return answer

    def _perform_assignment(self, leader_id: str, protocol: str, members: Any) -> dict[str, bytes]:
        said = {member.member_id: bytes(member.metadata) for member in members}
        return self._hooks.assign(leader_id, said, self._generation.generation_id)

    async def _on_join_complete_async(
        self,
        generation: int,
        member_id: str,
        protocol: str,
        member_assignment_bytes: bytes,
    ) -> None:
        round_s = time.monotonic() - self._round_started
        self._round_started = 0.0
        self.machine.fire(MemberEvent.ASSIGNED)
        membership = GroupGeneration(generation, member_id, self.group_instance_id)
        self._hooks.on_assigned(membership, bytes(member_assignment_bytes), self.is_leader, round_s)
