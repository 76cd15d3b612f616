"""Waits for brokers to answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kstreams_worker.errors import BrokerError

_REQUEST_TIMEOUT_S = 2.0
_PAUSE_S = 0.05


def wait_until_ready(
    bootstrap_servers: str,
    *,
    broker_ids: Collection[int] = (),
    timeout_s: float = 60.0,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Return once one of `bootstrap_servers` answers a metadata request and lists all of `broker_ids` as alive.

    Without `broker_ids` any one broker is enough. `check` is called between attempts, to raise when there is nothing
    left to wait for. Raises BrokerError after `timeout_s`.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        check()
        alive = _alive_brokers(bootstrap_servers)
        if alive and alive.issuperset(broker_ids):
            return
        if time.monotonic() >= deadline:
            missing = sorted(set(broker_ids) - alive)
            seen = f"it answers, but lacks brokers {missing}" if alive else "it does not answer"
            raise BrokerError(f"no broker was ready at {bootstrap_servers} within {timeout_s:g} s: {seen}")
        time.sleep(_PAUSE_S)


def _alive_brokers(bootstrap_servers: str) -> set[int]:
    # A new client each time: once it has learned of the other brokers, it would ask any of them instead.
    client = AdminClient(
        {
            "bootstrap.servers": bootstrap_servers,
            "client.id": "kstreams-ready",
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )
    try:
        return set(client.list_topics(timeout=_REQUEST_TIMEOUT_S).brokers)
    except KafkaException:
        return set()
