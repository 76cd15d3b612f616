"""What a worker says of itself about once a second: its status, and its metrics brought up to date."""

from __future__ import annotations

from collections import Counter

from assignor.model import MoveCase, RoundResult
from kstreams_worker.group.states import MemberState
from kstreams_worker.observe.metrics import WorkerMetrics
from kstreams_worker.observe.status import TaskStatus, WorkerStatus
from kstreams_worker.runtime.wiring import Wiring
from kstreams_worker.tasks.states import Role, TaskState
from kstreams_worker.tasks.task import Task


class StatusSource:
    """Called by one thread beside the loop. It reads plain attributes that the loop replaces, and owns nothing."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._restored_records = 0
        self._counted_round: RoundResult | None = None

    def status(self) -> WorkerStatus:
        """The worker now."""
        loop, plane = self._wiring.loop, self._wiring.plane
        tasks = sorted(loop.snapshot(), key=lambda task: task.id)
        lags = loop.lag_records
        joined = plane.state is not MemberState.UNJOINED and loop.rounds > 0
        return WorkerStatus(
            state=plane.state.name.lower(),
            ready=joined and not any(task.state is TaskState.FINISHING for task in tasks),
            member_id=loop.member_id,
            generation=loop.generation_id,
            loop_turns=loop.turns,
            tasks=[_task_status(task, sum(lags.get(partition, 0) for partition in task.inputs)) for task in tasks],
        )

    def metrics_text(self) -> str:
        """All series of this worker, after a look at what changes between batches."""
        metrics, loop = self._wiring.metrics, self._wiring.loop
        tasks = loop.snapshot()
        metrics.set_state(self._wiring.plane.state.name.lower())
        metrics.set_tasks(Counter((task.role.value, task.state.value) for task in tasks))
        metrics.set_input_lag(loop.lag_records)
        metrics.set_learner_lag({str(task.id): task.lag for task in tasks if task.role is Role.LEARNER})
        metrics.set_standby_lag({str(task.id): task.lag for task in tasks if task.role is Role.STANDBY})
        metrics.set_restore_remaining(
            {(str(task.id), "all"): task.lag for task in tasks if task.state is TaskState.FINISHING}
        )
        restored = self._wiring.updater.restored_records
        metrics.restore_records_total.inc(restored - self._restored_records)
        self._restored_records = restored
        self._wiring.files.observe(metrics)
        self._count_moves(metrics)
        return metrics.render()

    def _count_moves(self, metrics: WorkerMetrics) -> None:
        """The cases of the newest round that this worker led."""
        newest = self._wiring.leader.last_round
        if newest is None or newest is self._counted_round:
            return
        self._counted_round = newest
        for decision in newest.decisions:
            if decision.case is not MoveCase.KEEP:
                metrics.task_moves_total.labels(decision.case.value).inc()


def _task_status(task: Task, processing_lag: int) -> TaskStatus:
    running = task.state is TaskState.RUNNING
    copy = task.stateful and not running
    restored = task.restored_offsets if copy else None
    return TaskStatus(
        task=str(task.id),
        role=task.role.value,
        state=task.state.value,
        lag_records=processing_lag if running else task.lag,
        restored=restored,
        end=None if restored is None else restored + task.lag,
    )
