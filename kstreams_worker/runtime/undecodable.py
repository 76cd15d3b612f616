"""What to do with records that cannot be decoded: fail, skip, or dead_letter."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Literal

import structlog

from kstreams_worker.errors import RecordError
from kstreams_worker.observe.metrics import WorkerMetrics
from kstreams_worker.topology.records import Headers, OutputRow, RecordBatch

log = structlog.get_logger(__name__)

Policy = Literal["fail", "skip", "dead_letter"]

LOG_LINES_MAX = 100
"""Log lines about undecodable records of one worker; the metric goes on counting."""
ERROR_TEXT_MAX = 500


class UndecodablePolicy:
    """Called by compiled chains for each record that they cannot decode; returning drops the record."""

    def __init__(
        self,
        policy: Policy,
        metrics: WorkerMetrics,
        dead_letter: Callable[[OutputRow, Headers], None],
    ) -> None:
        self._policy = policy
        self._metrics = metrics
        self._dead_letter = dead_letter
        self._lines = 0

    def __call__(self, batch: RecordBatch, index: int, part: str, error: Exception) -> None:
        """Raises RecordError under the policy `fail`."""
        self._metrics.record_errors_total.labels("deserialize", self._policy).inc()
        offset = batch.offsets[index]
        if self._policy == "fail":
            raise RecordError(
                f"the {part} cannot be decoded: {error}. Correct the serde, or set "
                "deserialization.exception.policy to skip or dead_letter",
                batch.topic,
                batch.partition,
                offset,
            ) from error
        if self._policy == "dead_letter":
            row = (batch.keys[index], batch.values[index], batch.timestamps_ms[index])
            self._dead_letter(row, self._headers(batch, index, part, error))
        if self._lines < LOG_LINES_MAX:
            self._lines += 1
            log.warning(
                "undecodable record",
                action=self._policy,
                topic=batch.topic,
                partition=batch.partition,
                offset=offset,
                part=part,
                error=str(error)[:ERROR_TEXT_MAX],
                last_line=self._lines == LOG_LINES_MAX,
            )

    @staticmethod
    def _headers(batch: RecordBatch, index: int, part: str, error: Exception) -> Headers:
        """The record's own headers, and where it came from and why it is here (names as in KIP-1034)."""
        own = batch.headers(index) if batch.headers is not None else []
        return [
            *own,
            ("__streams.errors.exception", type(error).__name__.encode()),
            ("__streams.errors.message", f"{part}: {error}"[:ERROR_TEXT_MAX].encode()),
            ("__streams.errors.stacktrace", "".join(traceback.format_exception(error))[-2000:].encode()),
            ("__streams.errors.topic", batch.topic.encode()),
            ("__streams.errors.partition", str(batch.partition).encode()),
            ("__streams.errors.offset", str(batch.offsets[index]).encode()),
        ]
