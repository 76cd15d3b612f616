"""The group plane of one worker: an I/O thread that keeps it a member, and the few calls that the other threads make.

The loop publishes what it would say in a join (`publish`); a round with nothing to suspend takes that and does not wait for
the loop at all. A round that must suspend tasks waits for the loop's `prepared`, up to a deadline; past it the member joins
with those tasks still active, which moves nothing, and one more round follows when the loop has answered.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Protocol

import kafka.errors as kafka_errors
import structlog
from kafka.future import Future
from kafka.net.compat import KafkaNetClient
from kafka.protocol.consumer import LeaveGroupRequest

from assignor.model import Assignment, Subscription, TaskId
from assignor.wire import MetadataError, decode_assignment, encode_subscription
from kstreams_worker.control.records import Memory, Nudge, Record
from kstreams_worker.errors import BrokerError, GroupError
from kstreams_worker.group.claims import Claims
from kstreams_worker.group.client import GroupClient
from kstreams_worker.group.coordinator import CoordinatorHooks, StreamCoordinator
from kstreams_worker.group.events import (
    Assigned,
    GroupEvent,
    GroupFailed,
    GroupGeneration,
    MembershipLost,
    PrepareRound,
)
from kstreams_worker.group.failures import explained, is_passing
from kstreams_worker.group.leader import Leader
from kstreams_worker.group.offsets import Partition, check_commit, commit_request, fetch_request, read_offsets
from kstreams_worker.group.round_news import RoundNews
from kstreams_worker.group.states import MemberState

log = structlog.get_logger(__name__)

BOOTSTRAP_TIMEOUT_MS = 30_000
COORDINATOR_WAIT_S = 2.0
"""How long connecting waits to know the group's coordinator; joining goes on to look for it."""
REQUEST_TIMEOUT_S = 15.0
IDLE_WAIT_S = 0.25
"""How often the membership coroutine looks round when nothing wakes it."""
PREPARE_TIMEOUT_S = 2.0
"""How long a round waits for the loop to suspend tasks. Longer than a batch and a commit take; shorter than others mind."""


class ControlLine(Protocol):
    """What is needed of the control topic. Nothing of it blocks, and a group without one works at heartbeat speed."""

    @property
    def memory(self) -> Memory | None: ...
    def write(self, record: Record) -> None: ...
    def topic_made(self) -> None: ...


class GroupPlane:
    """Connected once, then a member, closed once. Tells the loop of rounds by `tell`, which must not block."""

    def __init__(
        self,
        client_config: Mapping[str, Any],
        *,
        group_id: str,
        client_id: str,
        protocol_type: str,
        group_instance_id: str | None,
        session_timeout_ms: int,
        heartbeat_interval_ms: int,
        rebalance_timeout_ms: int,
        leader: Leader,
        control: ControlLine,
        tell: Callable[[GroupEvent], None],
    ) -> None:
        self._tell = tell
        self.on_member_id: Callable[[str], None] = lambda _: None
        """Called on the I/O thread whenever the broker gives this member another id; empty: it has none now."""
        self._group_id = group_id
        self._leader = leader
        self._control = control
        self._news = RoundNews()
        self._lock = threading.Lock()
        self._published: Subscription | None = None
        self._being_learned: frozenset[TaskId] = frozenset()
        self._claims = Claims()
        self._said_ready: frozenset[TaskId] = frozenset()
        self._said_leaving = False
        self._asked: GroupEvent | None = None
        self._answer: Any = None
        self._loop_is_late = False
        self._closing = False
        self._heartbeat_interval_s = heartbeat_interval_ms / 1000
        self._joining_since: float | None = None
        self._committing = False
        self._commit_ended: Any = None
        self._servers = client_config["bootstrap_servers"]
        self._client = KafkaNetClient(**{**client_config, "client_id": client_id})
        self._coordinator = StreamCoordinator(
            self._client,
            CoordinatorHooks(
                metadata=self._metadata,
                assign=self._assign,
                on_prepare=self._prepare,
                on_lost=self._lost,
                on_assigned=self._assigned,
                on_member_id=self._member_id,
                on_round_noticed=self._round_noticed,
                on_joining_anew=self._joining_anew,
            ),
            protocol_type,
            group_id=group_id,
            group_instance_id=group_instance_id,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            max_poll_interval_ms=rebalance_timeout_ms,
            request_timeout_ms=int(REQUEST_TIMEOUT_S * 1000),
            api_version=(2, 4),
        )

    # -- for the loop ---------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Start the thread, and look for the group's coordinator. Raises BrokerError when no broker answers in time."""
        self._client._net.start()
        try:
            self._client._manager.bootstrap(BOOTSTRAP_TIMEOUT_MS)
        except kafka_errors.KafkaError as error:
            self._client._net.stop(timeout_ms=1000)
            raise BrokerError(
                f"cannot reach Kafka at {self._servers}: {error}; check bootstrap.servers and that the brokers are up"
            ) from error
        with suppress(kafka_errors.KafkaError):  # whatever it is, joining tries again and tells
            self._client._net.run(self._coordinator.ensure_coordinator_ready_async, COORDINATOR_WAIT_S * 1000)

    def join(self) -> None:
        """Become a member, and stay one."""
        self._client._manager.call_soon(self._stay_member)

    def publish(
        self, said: Subscription, being_learned: frozenset[TaskId], *, applied: Assignment | None = None
    ) -> None:
        """What to say in the next join, and which tasks must be suspended before it.

        `applied` is the assignment that the loop has just acted on.
        """
        with self._lock:
            self._published = said
            self._being_learned = being_learned
            if applied is not None:
                self._claims.applied(applied)

    def prepared(self, event: PrepareRound) -> None:
        """Answer to PrepareRound: what was to be suspended is, and published. A late answer asks for one more round."""
        self._loop_is_late = False
        if time.monotonic() > event.deadline:
            self.request_rejoin("suspended after the round had begun")
        self._resolve_answer(lambda asked: asked is event)

    def dropped(self) -> None:
        """Answer to MembershipLost: no task is left."""
        self._loop_is_late = False
        with self._lock:
            self._claims.drop()
        self._resolve_answer(lambda asked: isinstance(asked, MembershipLost))

    def request_rejoin(self, reason: str) -> None:
        """Start a round."""
        log.debug("asking for a round", reason=reason)
        self._client._net.call_soon_threadsafe(self._start_round)

    def nudged(self, nudge: Nudge) -> None:
        """Another member has started a round. From any thread."""
        with suppress(RuntimeError):  # the I/O thread has ended
            self._client._net.call_soon_threadsafe(lambda: self._heed(nudge))

    @property
    def generation(self) -> GroupGeneration:
        return self._coordinator.membership

    @property
    def state(self) -> MemberState:
        return self._coordinator.machine.state

    @property
    def is_leader(self) -> bool:
        return self._coordinator.is_leader and self.state is MemberState.STABLE

    def begin_commit(self) -> GroupGeneration | None:
        """Ask to commit offsets. The membership to do it as: no join is sent until `end_commit`. None: commit later, for a
        round is on; or not at all, for this member is out of the group, and the loop is about to hear of it.

        The broker takes the old generation's offsets until all members have joined, and no others until the round has
        ended. A join that takes longer than rounds do waits for some slow member: then a commit is tried all the same,
        and is undone in the rare case that the round ends at that very moment.
        """
        with self._lock:
            since = self._joining_since
            waited_long = since is not None and time.monotonic() - since > 2 * self._heartbeat_interval_s
            if since is not None and not (waited_long and self.state is MemberState.JOINING):
                return None
            generation = self.generation
            if generation.generation_id < 0:
                # A broker takes a transaction's offsets from whoever names neither generation nor member, without a look at
                # the group: from a worker whose tasks others have by now, too.
                return None
            self._committing = True
            return generation

    def end_commit(self) -> None:
        """The commit that was begun is over, one way or the other."""
        with self._lock:
            self._committing = False
            waiting, self._commit_ended = self._commit_ended, None
        if waiting is not None:
            self._client._net.call_soon_threadsafe(lambda: waiting.success(None))

    def commit_offsets(
        self, offsets: Mapping[Partition, int], generation: GroupGeneration, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> None:
        """Commit as this membership. Raises CommitRefused, GroupError (fenced), BrokerError."""
        check_commit(self._ask(commit_request(self._group_id, generation, offsets), timeout_s))

    def committed_offsets(
        self, partitions: Iterable[Partition], timeout_s: float = REQUEST_TIMEOUT_S
    ) -> dict[Partition, int]:
        """Committed offsets of those partitions that have one. Raises OffsetsUnstable, BrokerError."""
        wanted = list(partitions)
        return read_offsets(self._ask(fetch_request(self._group_id, wanted), timeout_s)) if wanted else {}

    def fence(self, transactional_id: str) -> None:
        """End the open transaction of a worker that is gone. Raises BrokerError."""
        GroupClient(self._client).fence(transactional_id)

    def close(self, *, for_good: bool = False) -> None:
        """Leave the group and stop the thread. A static member stays in it, to be back in a moment, unless it goes for good."""
        self._closing = True
        self._resolve_answer()
        membership = self.generation
        try:
            self._coordinator._close_heartbeat()
            if self._coordinator.is_dynamic_member():
                self._client._net.run(self._coordinator.maybe_leave_group_async, "closing", 5000)
            elif for_good:
                self._remove_static(membership)
            if membership.generation_id >= 0 and (for_good or self._coordinator.is_dynamic_member()):
                self._send(Nudge(generation=membership.generation_id, member=membership.member_id, ready=()))
        except (kafka_errors.KafkaError, BrokerError, RuntimeError) as error:
            log.warning("leaving the group failed", error=str(error))
        finally:
            self._client._net.stop(timeout_ms=5000)
            self._client.close()

    def _ask(self, request: Any, timeout_s: float) -> Any:
        """Send to the group's coordinator and wait for the answer, finding a new coordinator when it moved."""

        async def send() -> Any:
            if not await self._coordinator.ensure_coordinator_ready_async(timeout_ms=timeout_s * 1000):
                raise kafka_errors.CoordinatorNotAvailableError
            future = self._client._manager.send(request, node_id=self._coordinator.coordinator_id)
            return await self._client._manager.wait_for(future, timeout_s * 1000)

        try:
            return self._client._net.run(send)
        except kafka_errors.KafkaError as error:
            raise BrokerError(f"the group coordinator did not answer: {error}") from error

    def _remove_static(self, membership: GroupGeneration) -> None:
        """What a static member never does by itself (KIP-345): leave, so that nobody waits for its session to end."""
        identity = LeaveGroupRequest.MemberIdentity(
            member_id=membership.member_id, group_instance_id=membership.group_instance_id, reason="leaves for good"
        )
        self._ask(
            LeaveGroupRequest(
                group_id=self._group_id, member_id=membership.member_id, members=[identity], max_version=5
            ),
            REQUEST_TIMEOUT_S,
        )

    # -- on the I/O thread ----------------------------------------------------------------------------------------

    def _start_round(self) -> None:
        with self._lock:
            published = self._published
        ready: frozenset[TaskId] = frozenset() if published is None else published.ready
        self._send(self._news.start(self.generation.member_id, ready))
        self._coordinator.join_again()

    def _round_noticed(self) -> None:
        self._send(self._news.notice(self.generation.member_id))

    def _joining_anew(self) -> None:
        """Those who are in the group already learn of a newcomer at once; of their generation it knows from the leader."""
        memory = self._control.memory
        if memory is not None:
            self._send(Nudge(generation=memory.generation, member=self.generation.member_id, ready=()))

    def _send(self, nudge: Nudge | None) -> None:
        if nudge is not None:
            self._control.write(nudge)

    def _heed(self, nudge: Nudge) -> None:
        if nudge.member != self.generation.member_id and self._news.hear(nudge) and self.state is MemberState.STABLE:
            log.debug("nudged", member=nudge.member, generation=nudge.generation)
            self._coordinator.join_again()

    async def _stay_member(self) -> None:
        """Joins whenever a round is due, for as long as the worker lives."""
        while not self._closing:
            try:
                self._coordinator.poll_heartbeat()
                if self.is_leader and self._leader.patience_has_ended():
                    log.info("a leaving member has stayed past its deadline; starting a round")
                    self._start_round()
                if self._coordinator.need_rejoin() and self._published is not None:
                    await self._coordinator.ensure_active_group_async()
                await self._coordinator.wakeup(IDLE_WAIT_S)
            except Exception as error:
                if isinstance(error, kafka_errors.KafkaError) and is_passing(error):
                    log.warning("group trouble", error=str(error) or type(error).__name__)
                    await self._client._net.sleep(IDLE_WAIT_S)
                    continue
                self._tell(GroupFailed(explained(error, self._group_id)))
                return

    def _member_id(self, member_id: str) -> None:
        self.on_member_id(member_id)

    def _metadata(self) -> bytes:
        with self._lock:
            if self._published is None:
                raise RuntimeError("joined before anything was published")
            said = self._claims.to_say(self._published)
        self._said_ready = said.ready
        self._said_leaving = said.leaving
        return encode_subscription(said)

    def _assign(self, leader_id: str, members: dict[str, bytes], generation: int) -> dict[str, bytes]:
        try:
            return self._leader.assign(leader_id, members, generation)
        except BrokerError as error:
            # A retriable error makes the coordinator join again after a moment, and with it everybody.
            raise kafka_errors.CoordinatorNotAvailableError(str(error)) from error

    async def _prepare(self) -> None:
        with self._lock:
            # With nothing to suspend the loop is not asked: a slow record there delays no round.
            moving = self._news.to_suspend(self._claims.being_learned(self._being_learned))
        # A loop that still owes an answer is busy with a slow record: what it owes starts a round when it comes.
        if moving and not self._loop_is_late:
            event = PrepareRound(time.monotonic() + PREPARE_TIMEOUT_S, moving)
            await self._ask_loop(event, PREPARE_TIMEOUT_S)
        deadline = time.monotonic() + PREPARE_TIMEOUT_S
        while True:
            with self._lock:
                if not self._committing or time.monotonic() > deadline:
                    self._joining_since = time.monotonic()
                    return
                self._commit_ended = ended = Future()
            with suppress(kafka_errors.KafkaTimeoutError):
                await self._client._manager.wait_for(ended, PREPARE_TIMEOUT_S * 1000)

    async def _lost(self, reason: str) -> None:
        # Nobody waits for a member that is out, so this waits for as long as the loop needs.
        await self._ask_loop(MembershipLost(reason), None)

    async def _ask_loop(self, event: GroupEvent, timeout_s: float | None) -> None:
        self._asked, self._answer = event, Future()
        self._tell(event)
        try:
            await self._client._manager.wait_for(self._answer, None if timeout_s is None else timeout_s * 1000)
        except kafka_errors.KafkaTimeoutError:
            self._loop_is_late = True
            log.warning("the loop is busy; joining with its tasks still active", waited_s=timeout_s)

    def _resolve_answer(self, answers: Callable[[GroupEvent], bool] = lambda _: True) -> None:
        """End the wait for the loop, if what it was asked last is what this answers.

        A busy loop may answer when nobody waits any longer. If that ended the wait for the next thing it was asked, a join
        could call tasks suspended that the loop is about to resume, or claim tasks of a membership that is over.
        """

        def resolve() -> None:
            if self._asked is None or not answers(self._asked):
                return
            answer, self._answer = self._answer, None
            if answer is not None and not answer.is_done:
                answer.success(None)

        self._client._net.call_soon_threadsafe(resolve)

    def _assigned(self, membership: GroupGeneration, data: bytes, is_leader: bool, round_s: float) -> None:
        try:
            assignment = decode_assignment(data)
        except MetadataError as error:
            self._tell(
                GroupFailed(GroupError(f"the leader of group {self._group_id} sent an unreadable assignment: {error}"))
            )
            return
        with self._lock:
            self._claims.assigned(assignment)
            self._joining_since = None
        round_is_on = self._news.begin(membership.generation_id, rejoin=assignment.rejoin)
        self._tell(Assigned(membership, assignment, is_leader, round_s, self._said_ready, self._said_leaving))
        self._control.topic_made()
        if round_is_on:
            self._coordinator.join_again()
        if is_leader:
            self._client._net.call_soon_threadsafe(lambda: self._publish_round(membership.generation_id))

    def _publish_round(self, generation: int) -> None:
        """After the round: nobody waits for this."""
        for record in self._leader.to_publish(generation):
            self._control.write(record)
