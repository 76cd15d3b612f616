"""Make an application begin again: input offsets, internal topics, and what this machine keeps of its state.

`plan_reset` looks and changes nothing; `execute` does what was planned. Both refuse while anybody could notice.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from kstreams_worker.config import Settings
from kstreams_worker.errors import BrokerError, GroupAbsent, GroupError
from kstreams_worker.group.client import GroupClient
from kstreams_worker.group.positions import Position, ToTime, new_offsets
from kstreams_worker.io.admin import Admin
from kstreams_worker.runtime.task_files import translated
from kstreams_worker.runtime.topics import TopologyTopics
from kstreams_worker.topology.topology import Topology
from state.directory import StateDirectory

GONE_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """One input partition. `before` is None where nothing was committed."""

    topic: str
    partition: int
    before: int | None
    after: int


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """What a reset does."""

    group_id: str
    offsets: tuple[OffsetChange, ...]
    missing_topics: tuple[str, ...]
    """Input topics that do not exist: there is nothing to reset of them."""
    internal_topics: tuple[str, ...]
    """Changelogs, repartition topics and the control topic, as far as they exist: they are to be deleted."""
    state_directory: Path
    local_tasks: tuple[str, ...] | None
    """Tasks whose state on this machine is to be deleted; None: it is to be left alone."""


def plan_reset(
    settings: Settings,
    topology: Topology,
    position: Position,
    client: GroupClient,
    admin: Admin,
    *,
    local_state: bool,
) -> ResetPlan:
    """Look what there is to do. Raises GroupError while the group has members, StateError while an instance runs here."""
    group_id = settings.application_id
    _refuse_live(client, group_id)
    topics = TopologyTopics(topology, group_id, admin, settings.replication_factor)
    inputs = topics.input_topics()
    # With the control topic go orders to instances, and what the last leader knew: the application begins again.
    internal = sorted([*topics.internal_topics(), topics.control])
    counts = admin.partition_counts([*inputs, *internal])
    partitions = [(topic, number) for topic in inputs for number in range(counts.get(topic, 0))]
    committed = client.committed_offsets(group_id)
    after = new_offsets(
        position,
        partitions,
        committed=committed,
        begins=admin.begin_offsets(partitions),
        ends=admin.end_offsets(partitions, committed=False),
        at_time=admin.offsets_at(partitions, position.timestamp_ms) if isinstance(position, ToTime) else {},
    )
    directory = settings.state_dir.expanduser()
    return ResetPlan(
        group_id=group_id,
        offsets=tuple(OffsetChange(*each, committed.get(each), offset) for each, offset in after.items()),
        missing_topics=tuple(topic for topic in inputs if topic not in counts),
        internal_topics=tuple(topic for topic in internal if topic in counts),
        state_directory=directory,
        local_tasks=_local_tasks(directory, group_id) if local_state else None,
    )


def execute(plan: ResetPlan, client: GroupClient, admin: Admin) -> None:
    """Do it. Raises GroupError if somebody has joined meanwhile, BrokerError, StateError; what was done by then stays done."""
    _refuse_live(client, plan.group_id)
    admin.delete_topics(plan.internal_topics)
    _wait_until_gone(admin, plan.internal_topics)
    client.set_offsets(plan.group_id, {(each.topic, each.partition): each.after for each in plan.offsets})
    if plan.local_tasks:
        with translated():
            directory = StateDirectory(plan.state_directory, plan.group_id)
            directory.lock_instance()
            try:
                directory.clean(older_than_ms=0)
            finally:
                directory.unlock_instance()


def _refuse_live(client: GroupClient, group_id: str) -> None:
    try:
        group = client.describe(group_id)
    except GroupAbsent:
        return
    if group.members:
        hosts = sorted({member.client_host.lstrip("/") for member in group.members})
        raise GroupError(
            f"group {group_id} has {len(group.members)} members, on {', '.join(hosts[:5])}{', ...' if hosts[5:] else ''}: "
            "stop all instances first (a dead one counts until its session.timeout.ms has passed)"
        )


def _local_tasks(root: Path, application_id: str) -> tuple[str, ...]:
    if not (root / application_id).is_dir():
        return ()
    with translated():
        directory = StateDirectory(root, application_id)
        directory.lock_instance()
        directory.unlock_instance()
        return tuple(directory.tasks())


def _wait_until_gone(admin: Admin, topics: tuple[str, ...]) -> None:
    """Instances that start right after must not find topics that are about to vanish."""
    retrying = Retrying(
        retry=retry_if_result(bool),
        stop=stop_after_delay(GONE_TIMEOUT_S),
        wait=wait_fixed(0.1),
        retry_error_callback=lambda tried: tried.outcome and tried.outcome.result(),
    )
    left = retrying(admin.partition_counts, topics)
    if left:
        raise BrokerError(f"{', '.join(sorted(left))} still there after {GONE_TIMEOUT_S:g} s: run the reset again")
