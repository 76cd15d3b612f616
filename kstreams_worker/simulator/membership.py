"""A worker's group plane, as `kstreams_worker.group` does it: the real member state machine, on a simulated connection.

The loop is asked only where the real one is: to suspend tasks before a join, and to drop them when a membership is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from assignor.model import Assignment, Subscription, TaskId
from assignor.wire import decode_assignment, encode_subscription
from kstreams_worker.control.records import Nudge
from kstreams_worker.group.claims import Claims
from kstreams_worker.group.leader import Leader
from kstreams_worker.group.round_news import RoundNews
from kstreams_worker.group.states import MemberEvent, MemberState, member_machine
from kstreams_worker.simulator.clock import Action
from kstreams_worker.simulator.control import ControlTopic
from kstreams_worker.simulator.coordinator import GroupCoordinator, JoinAnswer, Refusal, SyncAnswer
from kstreams_worker.simulator.network import Link
from kstreams_worker.simulator.process import Process
from kstreams_worker.simulator.timing import Timing


@dataclass(frozen=True)
class LoopCalls:
    """What the group plane asks of the loop. The answers come by `prepared` and `dropped`."""

    subscription: Callable[[], Subscription]
    being_learned: Callable[[], frozenset[TaskId]]
    prepare: Callable[[int, frozenset[TaskId]], None]
    """Suspend these tasks, unless it is later than the first argument says."""
    drop_all: Action
    assigned: Callable[[Assignment, int, Subscription], None]
    """With its generation, and what this member said when it joined that round."""


Lead = Callable[[Leader, str, dict[str, bytes], int], dict[str, bytes]]


class Membership:
    """One member. `lead` is the leader's work in a round, with whatever the world wants to see of it."""

    def __init__(
        self,
        process: Process,
        coordinator: GroupCoordinator,
        link: Link,
        *,
        leader: Leader,
        lead: Lead,
        timing: Timing,
        static_id: str | None,
        control: ControlTopic,
        tell: Callable[[str], None],
    ) -> None:
        self._process, self._coordinator, self._link, self._timing = process, coordinator, link, timing
        self._leader, self._lead, self._tell = leader, lead, tell
        self._control, self._news = control, RoundNews()
        self.static_id = static_id
        self.loop: LoopCalls
        self.machine = member_machine()
        self.member_id = ""
        self.generation = -1
        self.is_leader = False
        self._rejoin_needed = True
        self._started = False
        self._lost = False
        self._claims = Claims()
        self.said: Subscription
        """In its last join."""
        self._answer: Action | None = None
        """What goes on once the loop has answered what it was asked last."""
        self._loop_is_late = False
        self._asked: int | None = None
        """The deadline of the preparation that the loop was asked for; None: it was asked to drop all tasks."""
        self._heartbeat_ms = 0

    # -- for the loop ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Join the group."""
        self._started = True
        self._join_if_due()

    def request_rejoin(self) -> None:
        """Start a round, if none is on; a request while one is on is void when that ends, as in the real client."""
        self._nudge(self._news.start(self.member_id, self.loop.subscription().ready))
        self._join_again()

    def see_to_deadlines(self) -> None:
        """As the leader, start a round when a leaving member's patience has ended and it is still there."""
        if self.is_leader and self._leader.patience_has_ended():
            self.request_rejoin()

    def applied(self, assignment: Assignment) -> None:
        """The loop has acted on this assignment."""
        self._tell(f"has acted on its assignment{' and is to join again' if assignment.rejoin else ''}")
        self._claims.applied(assignment)

    def prepared(self, deadline_ms: int) -> None:
        """What was to be suspended is. A late answer asks for one more round."""
        self._loop_is_late = False
        if self._process.clock.now_ms > deadline_ms:
            self.request_rejoin()
        if self._asked == deadline_ms:
            self._resolve()

    def dropped(self) -> None:
        """No task is left."""
        self._loop_is_late = False
        self._claims.drop()
        if self._asked is None:
            self._resolve()

    def leave(self, *, for_good: bool) -> None:
        """Leave the group. A static member stays in it, to be back in a moment, unless it goes for good."""
        self.machine.fire(MemberEvent.LEAVE)
        if for_good or self.static_id is None:
            member_id = self.member_id
            self._link.send(lambda: self._coordinator.leave(member_id))
            if self.generation >= 0:
                self._nudge(Nudge(generation=self.generation, member=member_id, ready=()))

    def may_commit(self) -> bool:
        """Whether the broker takes this worker's offsets: not from a member that is out, whatever it believes."""
        return self._coordinator.takes_commits_of(self.member_id)

    # -- for the broker -------------------------------------------------------------------------------------------

    def reachable(self) -> bool:
        return self._process.alive

    def until_heartbeat_ms(self) -> float:
        interval_ms = self._timing.heartbeat_interval_ms
        return interval_ms - (self._process.clock.now_ms - self._heartbeat_ms) % interval_ms

    def since_heartbeat_ms(self) -> float:
        """For how long the broker has heard nothing, at most one interval."""
        return (self._process.clock.now_ms - self._heartbeat_ms) % self._timing.heartbeat_interval_ms

    def heartbeat_refused(self, refusal: Refusal) -> None:
        """The answer to a heartbeat, on its way to the process."""
        self._receive(lambda: self._on_heartbeat_refused(refusal))

    def nudged(self, nudge: Nudge) -> None:
        """A nudge on the control topic, on its way to the process."""
        self._receive(lambda: self._heed(nudge))

    # -- the round ------------------------------------------------------------------------------------------------

    def _receive(self, action: Action) -> None:
        self._link.send(lambda: self._process.deliver(action))

    def _on_heartbeat_refused(self, refusal: Refusal) -> None:
        if self.machine.state is not MemberState.STABLE:
            return
        if refusal is Refusal.UNKNOWN_MEMBER_ID:
            self._lose("")
        elif not self._rejoin_needed:
            self._nudge(self._news.notice(self.member_id))
        self._join_again()

    def _nudge(self, nudge: Nudge | None) -> None:
        if nudge is not None:
            self._link.send(lambda: self._control.write(nudge))

    def _heed(self, nudge: Nudge) -> None:
        if nudge.member != self.member_id and self._news.hear(nudge) and self.machine.state is MemberState.STABLE:
            self._join_again()

    def _join_again(self) -> None:
        self._rejoin_needed = True
        self._join_if_due()

    def _lose(self, member_id: str) -> None:
        self.member_id = member_id
        self._lost = True
        self._tell("is out of the group")

    def _join_if_due(self) -> None:
        if not (self._started and self._rejoin_needed and self._process.alive):
            return
        if self.machine.state in (MemberState.UNJOINED, MemberState.STABLE):
            self._drop_if_lost(self._prepare)

    def _drop_if_lost(self, go_on: Action) -> None:
        if not self._lost:
            go_on()
            return
        self._lost = False
        self.machine.fire(MemberEvent.LOST)
        self.machine.fire(MemberEvent.ROUND)
        self._asked, self._answer = None, lambda: self._drop_if_lost(self._send_join)
        self.loop.drop_all()

    def _prepare(self) -> None:
        self.machine.fire(MemberEvent.ROUND)
        moving = self._news.to_suspend(self._claims.being_learned(self.loop.being_learned()))
        if not moving or self._loop_is_late:
            self._send_join()
            return
        deadline_ms = self._process.clock.now_ms + self._timing.prepare_timeout_ms
        self._asked, self._answer = deadline_ms, self._send_join
        answer = self._answer
        self._process.after(self._timing.prepare_timeout_ms, lambda: self._give_up_waiting(answer))
        self.loop.prepare(deadline_ms, moving)

    def _give_up_waiting(self, answer: Action) -> None:
        if self._answer is answer:
            self._loop_is_late = True
            self._tell("joins without waiting for its loop")
            self._resolve()

    def _resolve(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer()

    def _send_join(self) -> None:
        if self._lost:
            self._drop_if_lost(self._send_join)
            return
        if self.machine.state is MemberState.PREPARING:
            self.machine.fire(MemberEvent.PREPARED)
        else:
            self.machine.fire(MemberEvent.RETRY)
        said = self._claims.to_say(self.loop.subscription())
        self.said = said
        self._tell(f"joins with {_told(said)}")
        metadata, member_id = encode_subscription(said), self.member_id
        memory = self._control.memory
        if not member_id and self.static_id is None and memory is not None:
            self._nudge(Nudge(generation=memory.generation, member="a newcomer", ready=()))
        self._link.send(
            lambda: self._coordinator.join(
                self, member_id, self.static_id, metadata, lambda answer: self._receive(lambda: self._on_join(answer))
            )
        )

    def _on_join(self, answer: JoinAnswer) -> None:
        if self.machine.state is not MemberState.JOINING:
            return
        if isinstance(answer, Refusal):
            self._refused(answer)
            return
        self.member_id, self.generation = answer.member_id, answer.generation
        self.is_leader = answer.leader == answer.member_id
        self.machine.fire(MemberEvent.JOINED)
        if self.is_leader:
            members = dict(answer.members)
            self._process.after(self._timing.leader_ms, lambda: self._assign(members))
        else:
            self._send_sync(None)

    def _assign(self, members: dict[str, bytes]) -> None:
        if self.machine.state is MemberState.SETTLING:
            self._send_sync(self._lead(self._leader, self.member_id, members, self.generation))

    def _send_sync(self, assignments: dict[str, bytes] | None) -> None:
        member_id, generation = self.member_id, self.generation

        def answer(given: SyncAnswer) -> None:
            self._receive(lambda: self._on_sync(generation, given))

        self._link.send(lambda: self._coordinator.sync(member_id, generation, assignments, answer))

    def _on_sync(self, generation: int, answer: SyncAnswer) -> None:
        if self.machine.state is not MemberState.SETTLING or generation != self.generation:
            return
        if isinstance(answer, Refusal):
            self._refused(answer)
            return
        self.machine.fire(MemberEvent.ASSIGNED)
        self._rejoin_needed = False
        self._heartbeat_ms = self._process.clock.now_ms
        assignment = decode_assignment(answer)
        self._claims.assigned(assignment)
        round_is_on = self._news.begin(generation, rejoin=assignment.rejoin)
        if self.is_leader:
            for record in self._leader.to_publish(generation):
                self._link.send(partial(self._control.write, record))
        self.loop.assigned(assignment, generation, self.said)
        if round_is_on:
            self._join_again()

    def _refused(self, refusal: Refusal) -> None:
        if refusal is not Refusal.REBALANCE_IN_PROGRESS:
            self._lose("" if refusal is Refusal.UNKNOWN_MEMBER_ID else self.member_id)
        self._send_join()


def _told(said: Subscription) -> str:
    roles = {
        "active": said.active,
        "suspended": said.suspended,
        "ready": said.ready,
        "learning": said.learners.keys() - said.ready,
    }
    told = [f"{role} {' '.join(map(str, sorted(tasks)))}" for role, tasks in roles.items() if tasks]
    return ", ".join([*told, *(["leaving"] if said.leaving else [])]) or "nothing"
