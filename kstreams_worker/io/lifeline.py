"""Finds out that a client has lost the brokers for good, while another would find them.

A broker that shuts down may say, as its last words, that there are no brokers. librdkafka then drops those it knew, and where
the connection ends at the same moment it also drops its plan to look for some anew (its issue 5301, open with 2.16). Such a
client waits for ever, complains of nothing, and no setting of it changes that. It takes a busy machine and the restart of a
single broker, and then it is one client in forty.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kstreams_worker.io.call_thread import CallThread
from kstreams_worker.io.client_log import SilentLogger

SILENCE_S = 5.0
"""How long nothing may come before the client is asked: idle clients are asked that often, for one topic's metadata."""
ANSWER_TIMEOUT_S = 2.0


class Client(Protocol):
    """What clients of all kinds have."""

    def list_topics(self, topic: str, /, *, timeout: float) -> object: ...


class Lifeline:
    """Belongs to one client. Thread-safe; nothing of it waits, since the client is asked on a thread of its own."""

    def __init__(
        self, client: Client, client_config: Mapping[str, Any], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`client_config` is what another client needs to find the same brokers."""
        self._client = client
        self._config = client_config
        self._clock = clock
        self._lock = threading.Lock()
        self._heard_at = clock()
        self._answer: Future[bool] | None = None
        self._is_lost = False

    def heard(self) -> None:
        """Something has come: the client has its brokers."""
        self._heard_at = self._clock()

    def is_lost(self, topic: str) -> bool:
        """Whether another client has to take this one's place. To be asked while it is waited for, and nothing comes.

        It is lost if it does not find the brokers while another one does: if neither does, waiting is all one can do.
        """
        if self._is_lost:
            return True
        if self._answer is None and self._clock() - self._heard_at < SILENCE_S:
            return False
        with self._lock:
            if self._answer is None:
                thread = CallThread("lifeline")
                self._answer = thread.submit(partial(self._find_out, topic))
                thread.close()
            if not self._answer.done():
                return False
            answer, self._answer = self._answer, None
            self.heard()
            self._is_lost = answer.result()
        return self._is_lost

    def end(self, end_client: Callable[[], object]) -> None:
        """End the client, once nobody asks it anything: librdkafka must not be asked any more by then."""
        with self._lock:
            asking = self._answer
        if asking is None:
            end_client()
        else:
            asking.add_done_callback(lambda _: end_client())

    def _find_out(self, topic: str) -> bool:
        # Asked once more in the end: the brokers may have come back in between.
        return not self._finds_brokers(topic) and self._another_does(topic) and not self._finds_brokers(topic)

    def _another_does(self, topic: str) -> bool:
        return _answers(AdminClient(dict(self._config), logger=SilentLogger()), topic)

    def _finds_brokers(self, topic: str) -> bool:
        return _answers(self._client, topic)


def _answers(client: Client, topic: str) -> bool:
    try:
        client.list_topics(topic, timeout=ANSWER_TIMEOUT_S)
    except KafkaException:
        return False
    return True
