"""The topics that a topology needs, and the tasks that follow from their partitions.

A subtopology has as many tasks as its widest source topic has partitions. A repartition topic without a fixed count gets the
widest count of the subtopology that writes it; a changelog has one partition for each task. The leader creates what is
missing before it hands out tasks, and refuses to touch anything when an existing internal topic does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import structlog

from assignor.model import TaskId
from kstreams_worker.control import control_topic
from kstreams_worker.errors import BrokerError
from kstreams_worker.group.leader import TopicsMissing, TopicsUnsuitable
from kstreams_worker.io.admin import TopicSpec
from kstreams_worker.topology.topology import SubTopology, Topology

log = structlog.get_logger(__name__)

CONTROL_TOPIC_CONFIG = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.1",
    "segment.bytes": str(16 * 1024 * 1024),
    "segment.ms": str(24 * 3600 * 1000),
}
"""Every worker reads the control topic from its beginning when it starts: compaction keeps that short."""
REPARTITION_RETENTION_MS = 7 * 24 * 3600 * 1000
"""Repartitioned records are input of another subtopology: kept well past any outage."""


def control_spec(application_id: str, replication_factor: int) -> TopicSpec:
    """The control topic as a leader creates it."""
    return TopicSpec(control_topic(application_id), 1, replication_factor, CONTROL_TOPIC_CONFIG)


class TopicAdmin(Protocol):
    """What is asked of the brokers."""

    def partition_counts(self, topics: list[str]) -> dict[str, int]: ...
    def create_topics(self, specs: list[TopicSpec]) -> None: ...
    def topic_configs(self, topics: list[str], key: str) -> dict[str, str]: ...


@dataclass(frozen=True, slots=True)
class TopicsLook:
    """How the topics of a topology stand."""

    missing: tuple[str, ...] = ()
    """Topics that the user must create."""
    to_create: tuple[TopicSpec, ...] = ()
    """Internal topics that the first instance will create."""
    complaint: str = ""
    """Why an internal topic does not fit."""


class TopologyTopics:
    """The topics of one application."""

    def __init__(
        self,
        topology: Topology,
        application_id: str,
        admin: TopicAdmin,
        replication_factor: int,
        *,
        other_topics: Iterable[str] = (),
    ) -> None:
        """`other_topics` must exist too, though the topology does not name them: the dead letter topic, if one is used."""
        self._topology = topology
        self._application_id = application_id
        self._admin = admin
        self._replication_factor = replication_factor
        self._other_topics = tuple(other_topics)
        self.control = control_topic(application_id)
        self._checked: dict[str, int] = {}
        self._control_complaint = ""
        self.assigned_counts: Mapping[str, int] | None = None
        """Partitions of `all_topics` that the newest answer of `tasks` went by; None before the first."""

    def external_topics(self) -> list[str]:
        """The topics that the user must create: sources, sinks and others."""
        named = {topic for sub in self._topology.subtopologies for topic in (*sub.source_topics, *sub.sink_topics)}
        return sorted({*named, *self._other_topics})

    def input_topics(self) -> list[str]:
        """The topics that the topology reads and does not write itself."""
        return sorted({topic for sub in self._topology.subtopologies for topic in sub.source_topics})

    def output_topics(self) -> list[str]:
        """The topics of the user's that are written."""
        return sorted(
            {topic for sub in self._topology.subtopologies for topic in sub.sink_topics} | {*self._other_topics}
        )

    def internal_topics(self) -> list[str]:
        """Repartition topics and changelogs, by their real names."""
        repartition = {
            topic.topic(self._application_id)
            for sub in self._topology.subtopologies
            for topic in sub.repartition_sources
        }
        return sorted({*repartition, *self._changelogs()})

    def source_topics(self, sub: SubTopology) -> tuple[str, ...]:
        """All topics that a subtopology reads, by their real names."""
        internal = (topic.topic(self._application_id) for topic in sub.repartition_sources)
        return (*sub.source_topics, *internal)

    def sources(self) -> dict[int, tuple[str, ...]]:
        """The source topics of each subtopology, by their real names."""
        return {sub.id: self.source_topics(sub) for sub in self._topology.subtopologies}

    def all_source_topics(self) -> list[str]:
        return sorted({topic for sub in self._topology.subtopologies for topic in self.source_topics(sub)})

    def all_topics(self) -> list[str]:
        """Every topic that must exist for the topology to run, but for the changelogs."""
        return sorted({*self.external_topics(), *self.all_source_topics()})

    def counts(self) -> dict[str, int]:
        """Partitions of each of these topics that exists now."""
        return self._admin.partition_counts(self.all_topics())

    def tasks(self) -> Mapping[TaskId, bool]:
        """Every task and whether it is stateful. Creates missing internal topics.

        Raises TopicsMissing, TopicsUnsuitable, BrokerError.
        """
        names = [*self.all_topics(), *self._changelogs(), self.control]
        existing = self._admin.partition_counts(names)
        self._see_to_control(existing)
        self.assigned_counts = self._of_interest(existing)
        missing = [topic for topic in self.external_topics() if topic not in existing]
        if missing:
            raise TopicsMissing(
                f"waiting for topic{'s' if len(missing) > 1 else ''} {', '.join(missing)}: "
                "create them, or correct the names in the topology"
            )
        counts = self._counts(existing)
        wanted = self._internal(counts)
        self._check(wanted, existing)
        self._admin.create_topics([spec for spec in wanted if spec.name not in existing])
        self.assigned_counts = self._of_interest(counts)
        return {
            TaskId(sub.id, partition): sub.is_stateful
            for sub in self._topology.subtopologies
            for partition in range(self._task_count(sub, counts))
        }

    def look(self) -> TopicsLook:
        """How the topics stand, for a person; nothing is created. Raises BrokerError."""
        existing = self._admin.partition_counts([*self.all_topics(), *self._changelogs()])
        missing = tuple(topic for topic in self.external_topics() if topic not in existing)
        if missing:
            return TopicsLook(missing)
        try:
            wanted = self._internal(self._counts(existing))
            self._check(wanted, existing)
        except TopicsUnsuitable as unsuitable:
            return TopicsLook(complaint=str(unsuitable))
        return TopicsLook(to_create=tuple(spec for spec in wanted if spec.name not in existing))

    def _see_to_control(self, existing: Mapping[str, int]) -> None:
        """Create or check the control topic. Nothing about it stops a round: the group works without one."""
        complaint = ""
        try:
            if self.control not in existing:
                self._admin.create_topics([control_spec(self._application_id, self._replication_factor)])
            elif self.control not in self._checked:
                self._checked[self.control] = existing[self.control]
                policy = self._admin.topic_configs([self.control], "cleanup.policy").get(self.control, "")
                if existing[self.control] != 1 or policy != "compact":
                    complaint = (
                        f"it has {existing[self.control]} partition(s) and cleanup.policy={policy}, and should have one "
                        "partition and cleanup.policy=compact: orders may be forgotten, or it may grow without end"
                    )
        except BrokerError as error:
            complaint = f"{error}; create it (one partition, cleanup.policy=compact) or grant this user CREATE on it"
        if complaint and complaint != self._control_complaint:
            self._control_complaint = complaint
            log.warning("the control topic is not as it should be", topic=self.control, reason=complaint)

    def _of_interest(self, counts: Mapping[str, int]) -> dict[str, int]:
        return {topic: counts[topic] for topic in self.all_topics() if topic in counts}

    def _counts(self, existing: Mapping[str, int]) -> dict[str, int]:
        """Partitions of every source topic, as they are or as they are to be created."""
        counts = dict(existing)
        undecided = {
            topic.topic(self._application_id): topic.partitions
            for sub in self._topology.subtopologies
            for topic in sub.repartition_sources
        }
        for name, fixed in list(undecided.items()):
            if name in existing or fixed is not None:
                counts.setdefault(name, fixed or 0)
                del undecided[name]
        while undecided:
            before = len(undecided)
            for sub in self._topology.subtopologies:
                sources = self.source_topics(sub)
                if any(topic in undecided for topic in sources):
                    continue
                for topic in sub.repartition_sinks:
                    name = topic.topic(self._application_id)
                    if name in undecided:
                        counts[name] = max(counts[source] for source in sources)
                        del undecided[name]
            if len(undecided) == before:
                raise TopicsUnsuitable(
                    f"the partition counts of {', '.join(sorted(undecided))} depend on each other: "
                    "give one of them a count in repartition(partitions=...)"
                )
        return counts

    def _task_count(self, sub: SubTopology, counts: Mapping[str, int]) -> int:
        return max(counts[topic] for topic in self.source_topics(sub))

    def _changelogs(self) -> list[str]:
        return [
            store.changelog_topic(self._application_id)
            for sub in self._topology.subtopologies
            for store in sub.stores
            if store.logged
        ]

    def _internal(self, counts: Mapping[str, int]) -> list[TopicSpec]:
        specs = []
        for sub in self._topology.subtopologies:
            for topic in sub.repartition_sources:
                name = topic.topic(self._application_id)
                config = {"cleanup.policy": "delete", "retention.ms": str(REPARTITION_RETENTION_MS)}
                specs.append(TopicSpec(name, counts[name], self._replication_factor, config))
            tasks = self._task_count(sub, counts)
            for store in sub.stores:
                if store.logged:
                    name = store.changelog_topic(self._application_id)
                    specs.append(TopicSpec(name, tasks, self._replication_factor, {"cleanup.policy": "compact"}))
        return specs

    def _check(self, wanted: list[TopicSpec], existing: Mapping[str, int]) -> None:
        for spec in wanted:
            if spec.name in existing and existing[spec.name] != spec.partitions:
                raise TopicsUnsuitable(
                    f"internal topic {spec.name} has {existing[spec.name]} partitions, the topology needs "
                    f"{spec.partitions}: an input topic has changed its partition count, and keys of existing state would "
                    "land elsewhere; no state was touched. Go back to the old count, or reset the application"
                )
        unchecked = [spec for spec in wanted if spec.name in existing and spec.name not in self._checked]
        policies = self._admin.topic_configs([spec.name for spec in unchecked], "cleanup.policy")
        for spec in unchecked:
            policy = policies.get(spec.name, "")
            needed = spec.config["cleanup.policy"]
            if needed not in policy.split(","):
                raise TopicsUnsuitable(
                    f"internal topic {spec.name} has cleanup.policy={policy}, it must be {needed}: "
                    "change it, or delete the topic if it holds nothing of value"
                )
            self._checked[spec.name] = spec.partitions
