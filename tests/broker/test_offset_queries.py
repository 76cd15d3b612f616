"""Offset queries of a client that stays while the brokers do not."""

from __future__ import annotations

import pytest
from harness.waiting import until

from kstreams_worker.errors import BrokerError
from kstreams_worker.io.admin import Admin
from kstreams_worker.testing.broker import embedded_kafka

pytestmark = pytest.mark.broker


def test_a_client_that_asked_before_a_restart_is_answered_after_it() -> None:
    """The restart raises the leader epochs, and the client still has the old ones in mind."""
    with embedded_kafka(nodes=1) as kafka:
        assert kafka.embedded is not None
        topic = kafka.create_topic(partitions=2)
        admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
        ends = {(topic, 0): 0, (topic, 1): 0}

        def answered() -> bool:
            try:
                return admin.end_offsets(ends, committed=True) == ends
            except BrokerError:
                return False

        until(answered, "the offsets are read")
        kafka.embedded.restart_node(1)
        until(answered, "the offsets are read again")
