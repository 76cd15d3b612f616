"""The producer without transactions: a commit is as good as what the brokers say of each record."""

from __future__ import annotations

import random

import pytest

from kstreams_worker.config.clients import data_plane_config
from kstreams_worker.errors import BrokerError
from kstreams_worker.io.producer import PlainProducer
from kstreams_worker.testing.broker import RunningKafka

pytestmark = pytest.mark.broker


def test_a_record_that_the_brokers_refuse_fails_its_commit_and_no_other(kafka: RunningKafka) -> None:
    """Too large for the topic is known to the broker alone."""
    small_only = kafka.create_topic(config={"max.message.bytes": "500"})
    producer = PlainProducer(
        data_plane_config(kafka.bootstrap_servers, {}, "producer"), client_id="producer", flush_timeout_s=60
    )
    offsets: list[int] = []

    def commit(value: bytes) -> None:
        producer.send_tracked(small_only, [(b"key", value, 1)], 0, offsets.append)
        producer.begin_commit()
        producer.commit()

    commit(b"small")
    with pytest.raises(BrokerError, match=f"a record for topic {small_only} was not delivered: .*MSG_SIZE_TOO_LARGE"):
        commit(random.Random(1).randbytes(5_000))
    commit(b"small again")
    assert offsets == [0, 1], "what was refused has no offset to tell"
    producer.close()
