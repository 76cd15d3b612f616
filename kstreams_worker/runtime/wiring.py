"""How a worker is put together: every client, thread and store, made in one place from settings and topology."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import structlog

from assignor.model import AssignorSettings, CopyState, InstanceId, LagRecords, TaskId, WorkerId
from kstreams_worker.config import Settings
from kstreams_worker.control.channel import FETCH_WAIT_MS, PARTITION, ControlChannel, ControlClients
from kstreams_worker.control.records import LeaveOrder
from kstreams_worker.errors import GroupError
from kstreams_worker.group.events import GroupEvent, GroupGeneration
from kstreams_worker.group.leader import Leader
from kstreams_worker.group.offsets import CommitRefused
from kstreams_worker.group.plane import GroupPlane
from kstreams_worker.io.admin import Admin
from kstreams_worker.io.consumer import RecordConsumer, gathering
from kstreams_worker.io.producer import PlainProducer
from kstreams_worker.io.record_writer import RecordWriter
from kstreams_worker.io.transactions import TransactionalProducer
from kstreams_worker.observe.metrics import WorkerMetrics
from kstreams_worker.restore.events import RestoreEvent
from kstreams_worker.restore.updater import Sources, Updater
from kstreams_worker.runtime.names import transactional_id
from kstreams_worker.runtime.processor import CommitGate, Processor
from kstreams_worker.runtime.task_files import TaskFiles
from kstreams_worker.runtime.topics import TopologyTopics
from kstreams_worker.runtime.undecodable import UndecodablePolicy
from kstreams_worker.runtime.worker_loop import LoopParts, WorkerLoop
from kstreams_worker.runtime.worker_tasks import TaskParts
from kstreams_worker.tasks.leaving import LeaveCause, LeaveEvent, OrderTakenBack, ToldToLeave
from kstreams_worker.tasks.plan import Identity
from kstreams_worker.tasks.states import Role
from kstreams_worker.tasks.task import Task
from kstreams_worker.topology.compile import CompiledSubTopology, compile_subtopology
from kstreams_worker.topology.records import Headers, OutputRow, Partition
from kstreams_worker.topology.topology import Topology

log = structlog.get_logger(__name__)

ADMIN_TIMEOUT_S = 4.0
"""Well below the session's default 10 s: the leader looks at topics between two heartbeats."""
COMMIT_TIMEOUT_S = 60.0
"""How long a commit is tried while the brokers do not answer; a worker that fails is restarted with back-off."""

WorkerEvents = queue.SimpleQueue[GroupEvent | RestoreEvent | LeaveEvent]


@dataclass(frozen=True, slots=True)
class WorkerName:
    """Which worker this is: the instance's process id (UUID bytes), its index in the instance, the instance's name."""

    process_id: bytes
    index: int
    instance_name: str

    @property
    def id(self) -> WorkerId:
        return WorkerId(InstanceId(self.process_id), self.index)


class Wiring:
    """Makes the parts of one worker. The order of the methods is the order in which they come to life."""

    def __init__(self, settings: Settings, topology: Topology, name: WorkerName, files: TaskFiles) -> None:
        self.settings = settings
        self.topology = topology
        self.name = name
        self.files = files
        self.metrics = WorkerMetrics()
        self.events: WorkerEvents = queue.SimpleQueue()
        self.client_id = f"{settings.application_id}-{name.instance_name}-{name.index}"
        self.exactly_once = settings.processing_guarantee == "exactly_once_v2"
        self.admin = Admin(
            settings.client_config("admin"), client_id=f"{self.client_id}-admin", timeout_s=ADMIN_TIMEOUT_S
        )
        dead_letters = settings.deserialization_exception_policy == "dead_letter"
        self.topics = TopologyTopics(
            topology,
            settings.application_id,
            self.admin,
            settings.replication_factor,
            other_topics=[settings.dead_letter_topic] if dead_letters else (),
        )
        self.control = self._control()
        self.leader = Leader(
            AssignorSettings(settings.num_standby_tasks, settings.stream_imbalance_percentage),
            self.topics,
            topology.fingerprint,
            recall=lambda: self.control.memory,
        )
        self._compiled: dict[int, CompiledSubTopology] = {}
        self._input_counts: Mapping[str, int] = {}
        self._producer: PlainProducer | TransactionalProducer | None = None
        self.plane = self._plane()
        self.updater = self._updater()
        self.loop = self._loop()
        self.control.on_nudge = self.plane.nudged
        self.control.on_order = self._heed_order

    def _control(self) -> ControlChannel:
        """The thread reads with what the settings say of the admin client: the topic is none of the processing's."""
        client_config = self.settings.client_config("admin")
        client_id = f"{self.client_id}-control"
        topic = self.topics.control
        return ControlChannel(
            topic,
            UUID(bytes=self.name.process_id),
            ControlClients(
                end=lambda: self._end_of_control(topic),
                reader=lambda: RecordConsumer(
                    {"queued.max.messages.kbytes": 4096, **client_config, "fetch.wait.max.ms": FETCH_WAIT_MS},
                    group_id=self.settings.application_id,
                    client_id=client_id,
                    read_committed=False,
                    report_ends=True,
                ),
                writer=lambda on_failure: RecordWriter(client_config, client_id=client_id, on_failure=on_failure),
            ),
            f"control-{self.name.index}",
        )

    def _end_of_control(self, topic: str) -> int | None:
        if topic not in self.admin.partition_counts([topic]):
            return None
        return self.admin.end_offsets([(topic, PARTITION)], committed=False)[topic, PARTITION]

    def _heed_order(self, order: LeaveOrder | None) -> None:
        """On the control topic's thread. A worker that starts under an order has what is left of its time."""
        if order is None:
            self.events.put(OrderTakenBack())
            return
        remaining_ms = order.remaining_ms(self.settings.scale_down_timeout_ms, int(time.time() * 1000))
        self.events.put(ToldToLeave(LeaveCause.ORDER, remaining_ms))

    def hand_over(self) -> None:
        """Leave as on an order. Safe in a signal handler."""
        self.events.put(ToldToLeave(LeaveCause.SIGNAL, self.settings.scale_down_timeout_ms))

    def _plane(self) -> GroupPlane:
        settings = self.settings
        instance_id = settings.group_instance_id
        return GroupPlane(
            settings.group_plane_config(),
            group_id=settings.application_id,
            client_id=self.client_id,
            protocol_type="stream",
            group_instance_id=None if instance_id is None else f"{instance_id}-{self.name.index}",
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            leader=self.leader,
            control=self.control,
            tell=self.events.put,
        )

    def _updater(self) -> Updater:
        settings = self.settings
        stable = partial(self.admin.end_offsets, committed=self.exactly_once)
        sources = Sources(
            reader=lambda: RecordConsumer(
                settings.client_config("restore"),
                group_id=settings.application_id,
                client_id=f"{self.client_id}-restore",
                read_committed=self.exactly_once,
                report_ends=True,
            ),
            stable_ends=stable,
            written_ends=partial(self.admin.end_offsets, committed=False),
            committed_offsets=self.plane.committed_offsets,
            open_stores=self.files.open,
            close_task=self.files.close,
            set_aside=self.files.set_aside,
            fence=self._fence,
            is_processing=lambda: self.loop.is_processing,
        )
        return Updater(
            sources, self.events.put, acceptable_lag=settings.acceptable_recovery_lag, name=f"restore-{self.name.index}"
        )

    def _fence(self, worker: WorkerId) -> None:
        if self.exactly_once:
            log.info("fencing a worker that is gone", worker=f"{worker.instance.hex()}/{worker.index}")
            self.plane.fence(transactional_id(self.settings.application_id, worker))

    def _loop(self) -> WorkerLoop:
        settings = self.settings
        parts = LoopParts(
            identity=Identity(
                worker=self.name.id,
                topology=self.topology.fingerprint,
                capacity=settings.instance_capacity,
                name=self.name.instance_name,
                endpoint=settings.application_server,
                upgrade_mode=settings.upgrade_mode,
            ),
            group=self.plane,
            tasks=TaskParts(
                restorer=self.updater,
                new_processor=self._processor,
                new_task=self._task,
                bind=self._bind,
                close_task=self.files.close,
                dormant=self._dormant,
                metrics=self.metrics,
            ),
            metrics=self.metrics,
            commit_interval_s=settings.commit_interval_ms / 1000,
            partial_rebalance=settings.learner_partial_rebalance,
        )
        return WorkerLoop(parts, self.events)

    def _processor(self) -> Processor:
        settings = self.settings
        gathered = gathering(settings.commit_interval_ms) if self.exactly_once else {}
        reader = RecordConsumer(
            {**gathered, **settings.client_config("consumer")},
            group_id=settings.application_id,
            client_id=f"{self.client_id}-consumer",
            read_committed=self.exactly_once,
        )
        producer_config = settings.client_config("producer")
        client_id = f"{self.client_id}-producer"
        commit_offsets = None
        if self.exactly_once:
            self._producer = TransactionalProducer(
                producer_config,
                client_id=client_id,
                group_id=settings.application_id,
                transactional_id=transactional_id(settings.application_id, self.name.id),
                transaction_timeout_ms=settings.transaction_timeout_ms,
                commit_timeout_s=COMMIT_TIMEOUT_S,
            )
        else:
            self._producer = PlainProducer(producer_config, client_id=client_id, flush_timeout_s=COMMIT_TIMEOUT_S)
            commit_offsets = self._commit_offsets
        return Processor(
            reader,
            self._producer,
            CommitGate(self.plane.begin_commit, self.plane.end_commit, commit_offsets),
            self.metrics,
            name=self.client_id,
            log_early=settings.cache_max_bytes == 0,
            max_records=settings.poll_max_records,
            max_dirty_bytes=settings.task_buffer_max_bytes,
        )

    def _commit_offsets(self, offsets: Mapping[Partition, int], generation: GroupGeneration) -> bool:
        try:
            self.plane.commit_offsets(offsets, generation)
        except CommitRefused as refused:
            log.debug("offsets not committed; trying again", reason=str(refused))
            return False
        except GroupError as error:
            log.info("offsets refused: this member is out of the group", reason=str(error))
            self.plane.request_rejoin("offsets refused")
            return False
        return True

    # -- tasks ------------------------------------------------------------------------------------------------------

    def _task(self, task_id: TaskId, role: Role) -> Task:
        sub = self.topology.subtopologies[task_id.subtopology]
        topics = self.topics.source_topics(sub)
        if any(task_id.partition >= self._input_counts.get(topic, 0) for topic in topics):
            self._input_counts = self.topics.counts()
        inputs = tuple(
            (topic, task_id.partition) for topic in topics if task_id.partition < self._input_counts.get(topic, 0)
        )
        return Task(task_id, role, sub.is_stateful, inputs)

    def _bind(self, task: Task) -> None:
        """Give the task its program: the subtopology's chain, compiled once for this worker, bound to its stores."""
        settings = self.settings
        number = task.id.subtopology
        compiled = self._compiled.get(number)
        if compiled is None:
            sub = self.topology.subtopologies[number]
            compiled = compile_subtopology(sub, settings.application_id, cached=settings.cache_max_bytes > 0)
            self._compiled[number] = compiled
        policy = UndecodablePolicy(settings.deserialization_exception_policy, self.metrics, self._dead_letter)
        task.program = compiled.bind(task.stores, policy)

    def _dead_letter(self, row: OutputRow, headers: Headers) -> None:
        assert self._producer is not None, "records are decoded only while there is a producer"
        self._producer.send_with_headers(self.settings.dead_letter_topic, row, headers)

    def _dormant(self) -> dict[TaskId, CopyState]:
        """State on disk that nobody of this instance has open, with its distance from the changelogs' ends."""
        found = self.files.dormant()
        changelogs = {partition for offsets in found.values() for partition in offsets}
        ends = self._ends_of(changelogs) if changelogs else {}
        return {
            task: CopyState(LagRecords(sum(max(0, ends.get(key, 0) - offset) for key, offset in offsets.items())))
            for task, offsets in found.items()
        }

    def _ends_of(self, changelogs: Iterable[Partition]) -> Mapping[Partition, int]:
        existing = self.admin.partition_counts({topic for topic, _ in changelogs})
        return self.admin.end_offsets(
            [(topic, partition) for topic, partition in changelogs if partition < existing.get(topic, 0)],
            committed=self.exactly_once,
        )
