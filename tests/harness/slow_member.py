"""A member of the group that takes its time to join a round, as long as the test likes."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from kafka.net.compat import KafkaNetClient

from assignor.model import AssignorSettings, InstanceId, MoveCase, Subscription, WorkerId
from assignor.wire import encode_subscription
from harness.waiting import DEADLINE_S, until
from kstreams_worker.group.coordinator import CoordinatorHooks, StreamCoordinator
from kstreams_worker.group.events import GroupGeneration
from kstreams_worker.group.leader import Leader
from kstreams_worker.io.admin import Admin
from kstreams_worker.runtime.topics import TopologyTopics
from kstreams_worker.topology.topology import Topology

POLL_S = 0.05


class SlowMember:
    """Joins first, hence leads; says that it leaves, hence gets no task. Its heartbeats go on whatever it waits for.

    From the moment on at which it has handed out learners it holds every further round open until `release`.
    """

    def __init__(self, bootstrap_servers: str, group_id: str, topology: Topology) -> None:
        self._topology = topology
        admin = Admin({"bootstrap.servers": bootstrap_servers})
        self._leader = Leader(AssignorSettings(), TopologyTopics(topology, group_id, admin, -1), topology.fingerprint)
        self._client = KafkaNetClient(bootstrap_servers=bootstrap_servers, client_id="slow-member")
        self._coordinator = StreamCoordinator(
            self._client,
            CoordinatorHooks(
                metadata=self._metadata,
                assign=self._leader.assign,
                on_prepare=self._prepare,
                on_lost=self._nothing,
                on_assigned=self._assigned,
                on_member_id=lambda _: None,
            ),
            "stream",
            group_id=group_id,
            session_timeout_ms=int(DEADLINE_S * 1000),
            heartbeat_interval_ms=500,
            max_poll_interval_ms=int(2 * DEADLINE_S * 1000),
            api_version=(2, 4),
        )
        self._released = threading.Event()
        self._closing = False
        self._failure: Exception | None = None
        self.joined = threading.Event()
        """It has an assignment, and leads."""
        self.holds = threading.Event()
        """A round is on and waits for this member."""

    def __enter__(self) -> Self:
        self._client._net.start()
        self._client._manager.bootstrap(int(DEADLINE_S * 1000))
        self._client._manager.call_soon(self._stay_member)
        until(lambda: self.joined.is_set() or self._failure, "the slow member joins")
        assert self._failure is None, self._failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closing = True
        self.release()
        self._coordinator._close_heartbeat()
        self._client._net.run(self._coordinator.maybe_leave_group_async, "closing", 5000)
        self._client._net.stop(timeout_ms=5000)
        self._client.close()

    def release(self) -> None:
        """Join the round that is held, and hold no other."""
        self._released.set()
        self._client._net.call_soon_threadsafe(self._coordinator.wakeup.notify)

    async def _stay_member(self) -> None:
        try:
            while not self._closing:
                self._coordinator.poll_heartbeat()
                if self._coordinator.need_rejoin():
                    await self._coordinator.ensure_active_group_async()
                await self._coordinator.wakeup(POLL_S)
        except Exception as failure:  # it would be lost on this thread
            self._failure = failure
            raise

    async def _prepare(self) -> None:
        last = self._leader.last_round
        learning = last is not None and any(decision.case is MoveCase.LEARN for decision in last.decisions)
        while learning and not self._released.is_set() and not self._closing:
            self.holds.set()
            await self._coordinator.wakeup(POLL_S)

    async def _nothing(self, _reason: str) -> None:
        return

    def _metadata(self) -> bytes:
        return encode_subscription(
            Subscription(
                worker=WorkerId(InstanceId(bytes(16)), 0),
                topology=self._topology.fingerprint,
                name="slow",
                leaving=True,
            )
        )

    def _assigned(self, _membership: GroupGeneration, _data: bytes, is_leader: bool, _round_s: float) -> None:
        assert is_leader, "the slow member must lead, to know when learners are handed out"
        self.joined.set()
