"""What the group has committed, and whether it has processed all there is."""

from __future__ import annotations

import time
from contextlib import ExitStack

from examples.demo.settings import APPLICATION_ID, INPUTS, PARTITIONS, REPARTITIONED
from kstreams_worker.config import Settings
from kstreams_worker.group.client import GroupClient
from kstreams_worker.io.admin import Admin
from kstreams_worker.io.consumer import Partition, RecordConsumer

TIMEOUT_S = 10.0
# Commit markers take an offset each, so a topic written in transactions ends a few offsets after its last record.
MARKERS_MAX = 1000


class Progress:
    """Asks from outside the group. Raises BrokerError."""

    def __init__(self, bootstrap_servers: str) -> None:
        settings = Settings(application_id=APPLICATION_ID, bootstrap_servers=bootstrap_servers)
        self._config = settings.client_config("consumer")
        self._admin = Admin(settings.client_config("admin"), client_id="demo-admin")
        self._closing = ExitStack()
        self._group = self._closing.enter_context(GroupClient.connect(settings.group_plane_config()))

    def close(self) -> None:
        self._closing.close()

    def processed_records(self) -> int:
        """Input records whose results are committed."""
        return sum(self._committed(INPUTS).values())

    def unprocessed(self) -> int:
        """Offsets between what is committed and the ends of all inputs, at least 1 while there is a record among them."""
        committed = self._committed((*INPUTS, *REPARTITIONED))
        # Not only the committed ends: those of an open transaction may be behind the offsets that it has committed.
        ends = self._admin.end_offsets(committed, committed=False)
        behind = {partition: ends[partition] - offset for partition, offset in committed.items()}
        total = sum(behind.values())
        if total > MARKERS_MAX:
            return total
        rest = {partition: committed[partition] for partition, count in behind.items() if count > 0}
        return total if rest and self._holds_records(rest, ends) else 0

    def _committed(self, topics: tuple[str, ...]) -> dict[Partition, int]:
        committed = self._group.committed_offsets(APPLICATION_ID)
        partitions = [(topic, partition) for topic in topics for partition in range(PARTITIONS)]
        return {partition: committed.get(partition, 0) for partition in partitions}

    def _holds_records(self, positions: dict[Partition, int], ends: dict[Partition, int]) -> bool:
        """Whether there is more than markers from these positions on."""
        reader = RecordConsumer(
            self._config,
            group_id=f"{APPLICATION_ID}-rest",
            client_id="demo-rest",
            read_committed=True,
            report_ends=True,
        )
        try:
            reader.assign(positions)
            waiting = set(positions)
            deadline = time.monotonic() + TIMEOUT_S
            while waiting and time.monotonic() < deadline:
                fetched = reader.fetch(MARKERS_MAX, 0.1)
                if fetched.batches:
                    return True
                waiting -= {partition for partition, end in fetched.ends.items() if end >= ends[partition]}
            return bool(waiting)
        finally:
            reader.close()
