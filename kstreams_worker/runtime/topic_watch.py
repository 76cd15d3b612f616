"""Notices, on the leader, that input topics have appeared or changed their partition count, and asks for a round."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Protocol

import structlog

from kstreams_worker.errors import BrokerError
from kstreams_worker.runtime.topics import TopologyTopics

log = structlog.get_logger(__name__)

WAITING_INTERVAL_S = 1.0
"""How often to look while input topics are missing."""
INTERVAL_S = 10.0


class Membership(Protocol):
    """What is asked of the group plane."""

    @property
    def is_leader(self) -> bool: ...
    def request_rejoin(self, reason: str) -> None: ...


class TopicWatch(threading.Thread):
    """A thread of its own, since looking takes a round trip to the brokers, or a time-out.

    It compares with what the leader's last assignment went by, so that nothing is missed that happens right after it.
    """

    def __init__(self, topics: TopologyTopics, membership: Membership) -> None:
        super().__init__(name="topic-watch", daemon=True)
        self._topics = topics
        self._membership = membership
        self._stopping = threading.Event()
        self._asked_for: Mapping[str, int] | None = None
        """The counts for which a round was asked, which may be under way still."""

    def run(self) -> None:
        while not self._stopping.wait(WAITING_INTERVAL_S if self._is_waiting() else INTERVAL_S):
            if not self._membership.is_leader:
                continue
            try:
                self.look()
            except BrokerError as error:
                log.debug("cannot look at the topics", error=str(error))

    def _is_waiting(self) -> bool:
        assigned = self._topics.assigned_counts
        return assigned is None or len(assigned) < len(self._topics.all_topics())

    def look(self) -> None:
        """Compare once; asks for a round if something has changed. Raises BrokerError."""
        now, assigned = self._topics.counts(), self._topics.assigned_counts
        if assigned is None or now == assigned:
            self._asked_for = None
        elif now != self._asked_for:
            self._asked_for = now
            changed = sorted(topic for topic in {*now, *assigned} if now.get(topic) != assigned.get(topic))
            log.info("topics changed; starting a round", topics=changed)
            self._membership.request_rejoin(f"topics changed: {', '.join(changed)}")

    def stop(self) -> None:
        """End the thread after its current look."""
        self._stopping.set()
