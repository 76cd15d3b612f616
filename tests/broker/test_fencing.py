"""A dead worker's open transaction is ended by those who take over, long before it would time out."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from harness.waiting import until

from kstreams_worker.group.client import GroupClient
from kstreams_worker.io.admin import Admin
from kstreams_worker.testing.broker import RunningKafka

pytestmark = [pytest.mark.broker, pytest.mark.timeout(120)]


def test_an_open_transaction_is_ended(kafka: RunningKafka) -> None:
    """It is aborted, so committed records end where written ones do, and its producer cannot go on."""
    topic, transactional_id = kafka.create_topic(kafka.unique_name("fenced"), 1), kafka.unique_name("dead")
    dead = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": transactional_id, "log_level": 0}
    )
    dead.init_transactions()
    dead.begin_transaction()
    dead.produce(topic, b"never committed")
    dead.flush()
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})

    def end(*, committed: bool) -> int:
        return admin.end_offsets([(topic, 0)], committed=committed)[topic, 0]

    assert (end(committed=True), end(committed=False)) == (0, 1), "the transaction holds readers back"
    with GroupClient.connect({"bootstrap_servers": kafka.bootstrap_servers}) as client:
        client.fence(transactional_id)
    until(lambda: end(committed=True) == end(committed=False) == 2, "the record and the marker of its abort are final")
    with pytest.raises(Exception, match="fenced"):
        dead.commit_transaction()


def test_an_unknown_transactional_id_is_no_error(kafka: RunningKafka) -> None:
    """A worker can die before its first transaction."""
    with GroupClient.connect({"bootstrap_servers": kafka.bootstrap_servers}) as client:
        client.fence(kafka.unique_name("never-seen"))
