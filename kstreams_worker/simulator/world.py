"""Instances, their workers and what befalls them: everything around the group that the group has no say in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random

from assignor.model import (
    AssignorSettings,
    GroupSnapshot,
    InstanceId,
    RoundResult,
    TaskId,
    WorkerId,
)
from kstreams_worker.control.records import Nudge
from kstreams_worker.group.leader import DEADLINE_GRACE_MS, Leader
from kstreams_worker.group.states import MemberState
from kstreams_worker.simulator.changelogs import Changelogs
from kstreams_worker.simulator.clock import Clock
from kstreams_worker.simulator.control import ControlTopic
from kstreams_worker.simulator.coordinator import GroupCoordinator
from kstreams_worker.simulator.loop import Loop
from kstreams_worker.simulator.membership import Membership
from kstreams_worker.simulator.network import Link
from kstreams_worker.simulator.process import Process
from kstreams_worker.simulator.restore import Copy, Disk
from kstreams_worker.simulator.timing import Timing
from kstreams_worker.tasks.leaving import LeaveCause
from kstreams_worker.tasks.plan import Identity
from kstreams_worker.tasks.states import TaskEvent, TaskState

TOPOLOGY = b"topology"
RESTART_RETRY_MS = 500


@dataclass(slots=True)
class InstanceSettings:
    """One container: its workers and its settings."""

    name: str
    workers: int = 1
    capacity: int = 1
    static: bool = False
    partial_rebalance: bool = True
    assignor: AssignorSettings = field(default_factory=AssignorSettings)
    clock_skew_ms: int = 0


@dataclass(slots=True, eq=False)
class Worker:
    """A worker process, with all that ends with it."""

    instance: Instance
    process: Process
    link: Link
    member: Membership
    loop: Loop
    leader: Leader
    told_to_close: bool = False

    @property
    def name(self) -> str:
        return f"{self.instance.settings.name}/{self.loop.identity.worker.index}"


@dataclass(slots=True, eq=False)
class Instance:
    """What outlives its processes: the disk and the identity that lies on it."""

    identity: InstanceId
    settings: InstanceSettings
    disk: Disk = field(default_factory=Disk)
    workers: dict[int, Worker] = field(default_factory=dict)
    """Processes that are not dead, by index."""
    gone: bool = False
    """Its supervisor does not start workers again."""
    left: set[int] = field(default_factory=set)
    """Workers that have left for good; those that crash meanwhile are started again, to leave."""
    leaving: bool = False
    leave_timeout_ms: int | None = None

    @property
    def has_left(self) -> bool:
        """Whether all its workers have left for good."""
        return len(self.left) == self.settings.workers


class Observer:
    """Who wants to know what happens. The methods do nothing here: override those of interest."""

    def happened(self, who: str, what: str) -> None:
        """Anything worth a line."""

    def round(self, leader: Worker, generation: int, snapshot: GroupSnapshot, result: RoundResult) -> None:
        """A leader has computed a round."""

    def moved(self, worker: Worker, copy: Copy, event: TaskEvent) -> None:
        """A task changed its state. STARTED also after RESUME: it is processed from now on."""


class World:
    """One simulated group and its surroundings. `clock` drives it."""

    def __init__(
        self,
        tasks: Mapping[TaskId, bool],
        timing: Timing,
        observer: Observer,
        *,
        seed: int = 0,
        control_topic: bool = True,
    ) -> None:
        self.clock = Clock()
        self.dice = Random(seed)
        self.timing = timing
        self.observer = observer
        self.logs = Changelogs(self.clock)
        for task, stateful in tasks.items():
            self.logs.add(task, stateful=stateful)
        self.coordinator = GroupCoordinator(
            self.clock, timing.session_timeout_ms, timing.rebalance_timeout_ms, timing.initial_delay_ms
        )
        self.instances: dict[str, Instance] = {}
        self._by_identity: dict[InstanceId, Instance] = {}
        self.control = ControlTopic(self._nudge, working=control_topic)
        self.rounds = 0
        self.assigned_tasks = 0
        """How many tasks the last leader knew."""
        self.restored_records = 0.0
        """By workers that are dead; see `restored`."""
        self.crash_leader_at_round: int | None = None

    # -- for the leader ---------------------------------------------------------------------------------------------

    def tasks(self) -> Mapping[TaskId, bool]:
        """Every task, and whether it is stateful."""
        return {task: log.stateful for task, log in self.logs.tasks.items()}

    def sources(self) -> Mapping[int, tuple[str, ...]]:
        """Source topics of each subtopology."""
        return {task.subtopology: (f"input-{task.subtopology}",) for task in self.logs.tasks}

    def _lead(self, leader: Leader, leader_id: str, members: dict[str, bytes], generation: int) -> dict[str, bytes]:
        worker = self.worker_of(leader_id)
        if self.crash_leader_at_round is not None and generation >= self.crash_leader_at_round and worker:
            self.crash_leader_at_round = None
            self.clock.after(0, lambda: self.crash(worker))
        told = leader.assign(leader_id, members, generation)
        self.rounds += 1
        self.assigned_tasks = len(self.logs.tasks)
        if worker is not None and leader.last_snapshot is not None and leader.last_round is not None:
            self._watch_deadlines(worker, leader.last_snapshot, leader.last_round)
            self.observer.round(worker, generation, leader.last_snapshot, leader.last_round)
        return told

    def _watch_deadlines(self, worker: Worker, snapshot: GroupSnapshot, result: RoundResult) -> None:
        """The leader starts a round when the patience of a leaving member has ended and it is still there."""
        for deadline_ms in result.memory.leaving_deadlines_ms.values():
            if deadline_ms > snapshot.now_ms:
                wait_ms = deadline_ms - snapshot.now_ms + DEADLINE_GRACE_MS
                worker.process.after(wait_ms, worker.member.see_to_deadlines)

    def _nudge(self, nudge: Nudge) -> None:
        for worker in self.workers():
            worker.member.nudged(nudge)

    # -- who is there -------------------------------------------------------------------------------------------------

    def workers(self) -> list[Worker]:
        """All processes that are not dead."""
        return [worker for instance in self.instances.values() for worker in instance.workers.values()]

    def worker_of(self, member_id: str) -> Worker | None:
        """The process behind a member id, if it is not dead."""
        return next((worker for worker in self.workers() if worker.member.member_id == member_id), None)

    def worker(self, identity: WorkerId) -> Worker | None:
        """The process of a worker, if it is not dead."""
        instance = self._by_identity.get(identity.instance)
        return None if instance is None else instance.workers.get(identity.index)

    def restored(self) -> float:
        """Records that all workers have restored so far."""
        return self.restored_records + sum(worker.loop.restorer.restored_records for worker in self.workers())

    # -- what can happen ----------------------------------------------------------------------------------------------

    def start_instance(self, settings: InstanceSettings) -> Instance:
        """A new container."""
        instance = Instance(InstanceId(len(self.instances).to_bytes(16, "big")), settings)
        self.instances[settings.name] = self._by_identity[instance.identity] = instance
        for index in range(settings.workers):
            self._start_worker(instance, index)
        return instance

    def _start_worker(self, instance: Instance, index: int) -> None:
        settings = instance.settings
        process = Process(self.clock)
        link = Link(self.clock, self.dice, self.timing.network_ms)
        leader = Leader(
            settings.assignor,
            self,
            TOPOLOGY,
            clock_ms=lambda: self.clock.now_ms + settings.clock_skew_ms,
            recall=lambda: self.control.memory,
        )
        name = f"{settings.name}/{index}"
        member = Membership(
            process,
            self.coordinator,
            link,
            leader=leader,
            lead=self._lead,
            timing=self.timing,
            static_id=name if settings.static else None,
            control=self.control,
            tell=lambda what: self.observer.happened(name, what),
        )
        identity = Identity(WorkerId(instance.identity, index), TOPOLOGY, settings.capacity, settings.name)
        loop = Loop(
            identity,
            settings.partial_rebalance,
            process,
            member,
            disk=instance.disk,
            logs=self.logs,
            timing=self.timing,
            dice=self.dice,
            watch=self,
        )
        if instance.leaving:
            loop.tell_to_leave(LeaveCause.ORDER, instance.leave_timeout_ms)
        instance.workers[index] = Worker(instance, process, link, member, loop, leader)
        self.observer.happened(name, "starts")
        member.start()

    def crash(self, worker: Worker) -> None:
        """The process ends at once. Its supervisor says so to the group and starts it again."""
        if worker.process.dead:
            return
        self.observer.happened(worker.name, "crashes")
        self._end(worker)
        instance, index = worker.instance, worker.loop.identity.worker.index
        if not instance.settings.static and worker.member.member_id:
            worker.link.send(lambda: self.coordinator.leave(worker.member.member_id))
        self.clock.after(self.dice.uniform(*self.timing.restart_ms), lambda: self._restart(instance, index))

    def _restart(self, instance: Instance, index: int, former: Worker | None = None) -> None:
        """Start a worker, once its `former` process has ended."""
        running = instance.workers.get(index)
        if running is None and not instance.gone and index not in instance.left:
            self._start_worker(instance, index)
        elif running is not None and running is former:
            self.clock.after(RESTART_RETRY_MS, lambda: self._restart(instance, index, former))

    def crash_host(self, instance: Instance, *, back_after_ms: float | None = None, disk_lost: bool = False) -> None:
        """Host and supervisor are gone at once: nobody tells the group."""
        self.observer.happened(instance.settings.name, "host crashes")
        instance.gone = True
        for worker in list(instance.workers.values()):
            self._end(worker)
        if disk_lost:
            instance.disk.closed.clear()
        if back_after_ms is not None:
            self.clock.after(back_after_ms, lambda: self._host_is_back(instance))

    def _host_is_back(self, instance: Instance) -> None:
        instance.gone = False
        instance.left.clear()
        for index in range(instance.settings.workers):
            former = instance.workers.get(index)
            self._restart(instance, index, former if former and former.told_to_close else None)

    def close_instance(self, instance: Instance, *, back_after_ms: float | None = None) -> None:
        """Stop it in good order, as SIGTERM does: commit, leave. A bounce if it comes back."""
        self.observer.happened(instance.settings.name, "closes")
        instance.gone = True
        for worker in list(instance.workers.values()):
            worker.told_to_close = True
            worker.process.deliver(worker.loop.order_to_close)
        if back_after_ms is not None:
            self.clock.after(back_after_ms, lambda: self._host_is_back(instance))

    def hand_over_instance(self, instance: Instance, timeout_ms: int | None) -> None:
        """Stop it as SIGTERM does with on.sigterm=handover: it leaves once others have learned its tasks."""
        self.observer.happened(instance.settings.name, f"is stopped and hands over, patience {timeout_ms} ms")
        instance.gone = True
        for worker in list(instance.workers.values()):
            worker.process.deliver(partial(worker.loop.tell_to_leave, LeaveCause.SIGNAL, timeout_ms))

    def leave(self, instance: Instance, timeout_ms: int | None) -> None:
        """An order to leave, as the scale-down command gives it."""
        self.observer.happened(instance.settings.name, f"is to leave, patience {timeout_ms} ms")
        instance.leaving, instance.leave_timeout_ms = True, timeout_ms
        for worker in instance.workers.values():
            worker.process.deliver(partial(worker.loop.tell_to_leave, LeaveCause.ORDER, timeout_ms))

    def stay(self, instance: Instance) -> None:
        """The order to leave is taken back."""
        self.observer.happened(instance.settings.name, "is to stay")
        instance.leaving = False
        for worker in instance.workers.values():
            worker.process.deliver(worker.loop.order_to_stay)

    def pause(self, worker: Worker, for_ms: float) -> None:
        """The process stands still, as by SIGSTOP."""
        if not worker.process.alive:
            return
        self.observer.happened(worker.name, f"stands still for {for_ms:.0f} ms")
        worker.process.pause()
        self.coordinator.silent(worker.member, worker.member.since_heartbeat_ms())
        self.clock.after(for_ms, lambda: self._go_on(worker))

    def _go_on(self, worker: Worker) -> None:
        if worker.process.dead:
            return
        self.observer.happened(worker.name, "goes on")
        worker.loop.restorer.stood_still()
        worker.process.resume()
        if not worker.process.alive:  # what had waited for it was an order to close
            return
        member = worker.member
        if member.machine.state is MemberState.STABLE:
            worker.link.send(lambda: self.coordinator.heard(member, member.member_id))
        else:
            self.coordinator.awake(member)

    def forget(self) -> None:
        """What the control topic keeps of the leader's memory is lost."""
        self.observer.happened("topics", "the control topic is emptied")
        self.control.memory = None

    def add_partitions(self, subtopology: int, more: int) -> None:
        """More partitions in a subtopology's inputs; the leader sees it and starts a round."""
        same = [task for task in self.logs.tasks if task.subtopology == subtopology]
        for partition in range(len(same), len(same) + more):
            self.logs.add(TaskId(subtopology, partition), stateful=self.logs.tasks[same[0]].stateful)
        self.observer.happened("topics", f"{more} more partitions for subtopology {subtopology}")
        self._watch_topics()

    def _watch_topics(self) -> None:
        """Leaders look at the topics now and then."""
        for worker in self.workers():
            seen = worker.leader.last_round
            if worker.member.is_leader and seen is not None and len(seen.decisions) < len(self.logs.tasks):
                worker.process.deliver(worker.member.request_rejoin)
        if self.assigned_tasks < len(self.logs.tasks):
            self.clock.after(1000, self._watch_topics)

    def _end(self, worker: Worker) -> None:
        """The process is dead: what it had open lies on its disk."""
        loop, instance = worker.loop, worker.instance
        identity = loop.identity.worker
        positions = loop.restorer.positions()
        for task, copy in loop.tasks.items():
            if copy.state is TaskState.RUNNING:
                positions[task] = self.logs.end(task)
                self.logs.stopped(task, identity)
            elif copy.state is TaskState.SUSPENDED:
                positions[task] = copy.position
        self.restored_records += loop.restorer.restored_records
        if not worker.process.dead:
            if worker.process.alive:
                self.coordinator.silent(worker.member, worker.member.since_heartbeat_ms())
            worker.process.kill()
        del instance.workers[identity.index]
        instance.disk.died(identity, {task: at for task, at in positions.items() if self.logs.tasks[task].stateful})

    # -- for the loops ------------------------------------------------------------------------------------------------

    def moved(self, loop: Loop, copy: Copy, event: TaskEvent) -> None:
        """A task of a worker changed its state."""
        worker = self.worker(loop.identity.worker)
        if worker is not None and worker.loop is loop:
            self.observer.moved(worker, copy, event)

    def done(self, loop: Loop, *, for_good: bool) -> None:
        """A worker has left and its process ends."""
        worker = self.worker(loop.identity.worker)
        if worker is not None:
            self.observer.happened(worker.name, "has left")
            self._end(worker)
            if for_good:
                worker.instance.left.add(worker.loop.identity.worker.index)
