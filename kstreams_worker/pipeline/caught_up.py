"""Waits until an application has processed all that is in its input, so that its output can be verified.

It asks from outside the group: what the group has committed, where its input topics and its repartition topics end. The
offsets are read before the ends. When every end is then reached, everything was processed at that moment, however many
repartition topics lie between input and output.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Set
from contextlib import ExitStack
from typing import Self

from kstreams_worker.errors import KStreamsError, TopicError
from kstreams_worker.group.client import GroupClient
from kstreams_worker.io.admin import Admin
from kstreams_worker.io.consumer import RecordConsumer
from kstreams_worker.pipeline.access import KafkaAccess
from kstreams_worker.topology.records import Partition

_POLL_S = 0.25
_PROBE_TIMEOUT_S = 10.0
# Commit markers take an offset each, so a topic written in transactions ends a few offsets after its last record. Rests
# longer than this are taken for records without a look.
_MARKERS_MAX = 1_000


class Backlog:
    """What an application has yet to process. Close it, or use it in a `with` block. Not thread-safe."""

    def __init__(self, access: KafkaAccess, application_id: str, input_topics: Iterable[str]) -> None:
        """Raises BrokerError."""
        self._access = access
        self._application_id = application_id
        self._input_topics = frozenset(input_topics)
        self._admin = Admin(access.admin, client_id="kstreams-backlog")
        self._closing = ExitStack()
        self._group = self._closing.enter_context(GroupClient.connect(dict(access.group)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._closing.close()

    def committed(self) -> dict[Partition, int]:
        """The offset from which each partition of the input topics will be processed; 0 where nothing is committed."""
        return self._committed(self._partitions(self._input_topics))

    def rest(self) -> dict[Partition, int]:
        """Offsets between what is committed and the end, of each partition, if any has a record there; else empty.

        Covers the input topics and all repartition topics. Raises TopicError for a missing topic, BrokerError.
        """
        partitions = self._partitions(self._input_topics | self._repartition_topics())
        committed = self._committed(partitions)
        # Not the ends of committed records only: those of an open transaction may be behind offsets it has committed.
        ends = self._admin.end_offsets(partitions, committed=False)
        behind = {
            partition: end - committed[partition] for partition, end in ends.items() if end > committed[partition]
        }
        if not behind or sum(behind.values()) > _MARKERS_MAX:
            return behind
        return behind if self._hold_records({partition: committed[partition] for partition in behind}, ends) else {}

    def _committed(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        committed = self._group.committed_offsets(self._application_id)
        return {partition: committed.get(partition, 0) for partition in partitions}

    def _repartition_topics(self) -> set[str]:
        prefix = f"{self._application_id}-"
        return {name for name in self._admin.topic_names() if name.startswith(prefix) and name.endswith("-repartition")}

    def _partitions(self, topics: Set[str]) -> list[Partition]:
        counts = self._admin.partition_counts(topics)
        missing = sorted(topics - set(counts))
        if missing:
            raise TopicError(f"topic(s) not found: {', '.join(missing)}; check the names")
        return [(topic, partition) for topic, count in sorted(counts.items()) for partition in range(count)]

    def _hold_records(self, positions: Mapping[Partition, int], ends: Mapping[Partition, int]) -> bool:
        """Whether there is more than markers from these positions on."""
        reader = RecordConsumer(
            self._access.admin,
            group_id=f"{self._application_id}-backlog",
            client_id="kstreams-backlog",
            read_committed=True,
            report_ends=True,
        )
        try:
            reader.assign(positions)
            waiting = set(positions)
            deadline = time.monotonic() + _PROBE_TIMEOUT_S
            while waiting and time.monotonic() < deadline:
                fetched = reader.fetch(_MARKERS_MAX, 0.1)
                if fetched.batches:
                    return True
                waiting -= {partition for partition, end in fetched.ends.items() if end >= ends[partition]}
            return bool(waiting)
        finally:
            reader.close()


def wait_until_caught_up(
    access: KafkaAccess, application_id: str, input_topics: Iterable[str], *, timeout_s: float
) -> None:
    """Return once the group `application_id` has processed `input_topics` and all its repartition topics.

    Raises KStreamsError when that is not so within `timeout_s`, TopicError for a missing topic, BrokerError.
    """
    deadline = time.monotonic() + timeout_s
    with Backlog(access, application_id, input_topics) as backlog:
        while rest := backlog.rest():
            if time.monotonic() >= deadline:
                (topic, partition), most = max(rest.items(), key=lambda item: item[1])
                raise KStreamsError(
                    f"{application_id} has not caught up within {timeout_s:g} s: {sum(rest.values()):,} offset(s) left, "
                    f"most in {topic}[{partition}] ({most:,}); "
                    "is it running ('kstreams-worker tasks'), and does its input rest?"
                )
            time.sleep(_POLL_S)
