"""What the control topic says now: the newest record of each key. Pure; owned by whoever feeds it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from uuid import UUID

import structlog

from kstreams_worker.control.records import BadRecord, LeaveOrder, Memory, Nudge, Routing, decode, instance_of

log = structlog.get_logger(__name__)

COMPLAINTS_MAX = 20
"""Kinds of garbage that are told, each once; a topic that somebody floods must not flood the log."""


class ControlBoard:
    """`take` every record in order, then ask."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._orders: dict[UUID, LeaveOrder] = {}
        self._complaints: set[str] = set()
        self.memory: Memory | None = None
        self.routing: Routing | None = None

    @property
    def orders(self) -> Mapping[UUID, LeaveOrder]:
        """The orders that stand, by instance."""
        return MappingProxyType(self._orders)

    def take(self, key: bytes | None, value: bytes | None) -> Nudge | UUID | None:
        """Take in one record. Returns what somebody may have to act on: a nudge, or the instance whose order has changed.

        Garbage is logged, each kind of it once, and changes nothing.
        """
        if value is None:
            return self._forget(key)
        try:
            record = decode(key, value)
        except BadRecord as bad:
            self._complain(str(bad))
            return None
        match record:
            case Nudge():
                return record
            case LeaveOrder():
                self._orders[record.instance] = record
                return record.instance
            case Memory():
                self.memory = record
            case Routing():
                self.routing = record
        return None

    def _forget(self, key: bytes | None) -> UUID | None:
        instance = instance_of(key or b"")
        if instance is None or self._orders.pop(instance, None) is None:
            return None
        return instance

    def _complain(self, reason: str) -> None:
        if reason not in self._complaints and len(self._complaints) < COMPLAINTS_MAX:
            self._complaints.add(reason)
            log.warning("ignoring a record on the control topic", topic=self._topic, reason=reason)
