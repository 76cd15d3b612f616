"""What the demo runs with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from assignor.model import TaskId
from examples.orders import topology

TOPOLOGY = "examples.orders:topology"
APPLICATION_ID = "orders-demo"
PARTITIONS = 6

INPUTS = tuple(sorted({topic for sub in topology.subtopologies for topic in sub.source_topics}))
OUTPUTS = tuple(sorted({topic for sub in topology.subtopologies for topic in sub.sink_topics}))
TASKS = frozenset(TaskId(sub.id, partition) for sub in topology.subtopologies for partition in range(PARTITIONS))
TASK_OF_OUTPUT = {
    (topic, partition): TaskId(sub.id, partition)
    for sub in topology.subtopologies
    for topic in sub.sink_topics
    for partition in range(PARTITIONS)
}
"""Each task writes to the output partition of its own number: all topics have as many, and outputs keep their keys."""


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """The options of the command."""

    records_per_second: float
    history_records: int
    """Written before any instance starts, so that there is some state to hand over."""
    customers: int
    standbys: int
    commit_interval_ms: int
    steady_seconds: float
    """How long undisturbed processing is measured, for comparison."""
    directory: Path
    keep: bool

    @property
    def silence_limit_s(self) -> float:
        """An output partition that was quiet for longer is not being processed."""
        return max(2.0, 10 * self.commit_interval_ms / 1000, 20 * PARTITIONS / self.records_per_second)
