"""The control topic: every record reaches all members a moment later, and the newest memory of a leader is kept."""

from __future__ import annotations

from collections.abc import Callable

from kstreams_worker.control.records import Memory, Nudge, Record


class ControlTopic:
    """`nudge` takes a nudge to all members. Where it is not `working`, as if there were no such topic."""

    def __init__(self, nudge: Callable[[Nudge], None], *, working: bool) -> None:
        self._nudge = nudge
        self._working = working
        self.memory: Memory | None = None
        """The newest of any leader."""

    def write(self, record: Record) -> None:
        """A record that has arrived at the broker."""
        if not self._working:
            return
        if isinstance(record, Nudge):
            self._nudge(record)
        elif isinstance(record, Memory):
            self.memory = record
