"""Clients that lose their brokers for good: others take their place.

Whether a client loses them depends on which of two threads of librdkafka's is faster, so each test tries until one has. Should
that not happen any more, librdkafka is mended, and `Lifeline` has done its duty.
"""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import count

import pytest
from confluent_kafka import KafkaException, Producer
from harness.feeder import Feeder
from harness.history import TopicReader
from harness.last_words import LastWords
from harness.proxy import kafka_behind
from harness.waiting import until
from structlog.testing import capture_logs

from kstreams_worker.config.clients import data_plane_config
from kstreams_worker.errors import BrokerError
from kstreams_worker.group.events import GroupGeneration
from kstreams_worker.io.admin import Admin
from kstreams_worker.io.consumer import RecordConsumer
from kstreams_worker.io.failures import ProducerLost, TransactionAborted
from kstreams_worker.io.producer import PlainProducer
from kstreams_worker.io.record_writer import RecordWriter
from kstreams_worker.io.transactions import TransactionalProducer
from kstreams_worker.testing.broker import RunningKafka
from kstreams_worker.topology.records import Partition

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

TRIES = 60
ROW = (b"key", b"value", 1)


@pytest.fixture(scope="module")
def link() -> Iterator[LastWords]:
    with LastWords() as made:
        yield made


@pytest.fixture(scope="module")
def kafka_behind_link(link: LastWords, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningKafka]:
    with kafka_behind(link, tmp_path_factory.mktemp("kafka")) as running:
        yield running


class Trial:
    """One client after the other hears that there are no brokers, until one has lost them."""

    def __init__(self, kafka: RunningKafka, link: LastWords) -> None:
        self.kafka = kafka
        self._link = link

    def __iter__(self) -> Iterator[str]:
        """New topics. A client that is asked for something of one has to look up its leader, and will hear the last words."""
        for _ in range(TRIES):
            topic = self.kafka.create_topic()
            self._link.say_no_brokers()
            yield topic
            assert self._link.are_said, "nobody asked"
        pytest.fail(f"no client lost the brokers in {TRIES} tries: does librdkafka not forget them any more?")

    def records(self, topic: str) -> int:
        """How many are in it, once no transaction is open."""
        reader = TopicReader(self.kafka.bootstrap_servers, topic, 1)
        try:
            until(lambda: reader.ends(committed=True) == reader.ends(committed=False), "no transaction is open")
            return len(reader.read_to_end())
        finally:
            reader.close()


@pytest.fixture
def trial(kafka_behind_link: RunningKafka, link: LastWords) -> Trial:
    return Trial(kafka_behind_link, link)


@pytest.fixture
def config(link: LastWords) -> dict[str, str | int]:
    return data_plane_config(link.servers, {}, "consumer")


def test_a_consumer_reads_on_from_where_it_was(trial: Trial, config: dict[str, str | int]) -> None:
    """No record is left out, and none comes twice."""
    reader = RecordConsumer(config, group_id="readers", client_id="reader", read_committed=True)
    writer = Producer({"bootstrap.servers": trial.kafka.bootstrap_servers})
    written, numbers = count(), defaultdict[Partition, list[bytes | None]](list)
    sent: dict[Partition, list[bytes | None]] = {}

    def is_read() -> bool:
        for batch in reader.fetch(1_000, 0.1).batches:
            numbers[batch.topic, batch.partition] += batch.values
        return sum(map(len, numbers.values())) == sum(map(len, sent.values()))

    try:
        with capture_logs() as logs:
            for new in trial:
                reader.assign({(new, 0): None})
                sent[new, 0] = []
                for topic, partition in sent:
                    values: list[bytes | None] = [b"%d" % next(written) for _ in range(50)]
                    for value in values:
                        writer.produce(topic, value, partition=partition)
                    sent[topic, partition] += values
                assert writer.flush(30) == 0
                until(is_read, "all is read")
                assert numbers == sent
                if "a consumer had lost the brokers; another takes its place" in [log["event"] for log in logs]:
                    return
    finally:
        reader.close()


def test_a_producer_says_that_it_is_lost(trial: Trial, config: dict[str, str | int]) -> None:
    """Long before its records would count as not delivered."""

    def new_producer() -> PlainProducer:
        return PlainProducer(config, client_id="producer", flush_timeout_s=240)

    producer = new_producer()
    for topic in trial:
        producer.send(topic, [ROW])
        producer.begin_commit()
        try:
            producer.commit()
        except ProducerLost:
            break
        assert trial.records(topic) == 1
    another = new_producer()
    another.send(topic, [ROW])
    another.begin_commit()
    another.commit()
    assert trial.records(topic) == 1, "what was lost never arrives late"


def test_a_transaction_is_undone_and_written_again(trial: Trial, config: dict[str, str | int]) -> None:
    read = trial.kafka.create_topic()
    producer = TransactionalProducer(
        config,
        client_id="producer",
        group_id="lost",
        transactional_id="lost",
        transaction_timeout_ms=3_000,
        commit_timeout_s=60,
    )

    numbers = count(1)

    def commit(topic: str) -> None:
        producer.send(topic, [ROW])
        producer.begin_commit()
        producer.add_offsets({(read, 0): next(numbers)}, GroupGeneration(-1, ""))
        producer.commit()
        producer.end_commit()

    for topic in trial:
        try:
            commit(topic)
        except TransactionAborted:
            producer.abort()
            commit(topic)
            break
        assert trial.records(topic) == 1
    assert trial.records(topic) == 1
    producer.close()


def test_a_writer_of_single_records_gets_another_client(trial: Trial, config: dict[str, str | int]) -> None:
    """A record that was not delivered in time is told of, and the next ones arrive."""
    failures: list[str] = []
    writer = RecordWriter(config, client_id="writer", on_failure=failures.append)

    def is_told(topic: str) -> bool:
        writer.poll()
        return bool(failures) or trial.records(topic) == 1

    for topic in trial:
        writer.write(topic, 0, b"key", b"value")
        until(partial(is_told, topic), "the record is there, or said not to be")
        if failures:
            break
    with pytest.raises(BrokerError, match="timed out"):
        writer.flush(30)
    writer.write(topic, 0, b"key", b"another")
    writer.flush(30)
    assert trial.records(topic) == 1


def test_an_admin_call_that_fails_is_followed_by_one_that_does_not(trial: Trial, config: dict[str, str | int]) -> None:
    admin = Admin(config, timeout_s=3)
    for topic in trial:
        try:
            admin.end_offsets([(topic, 0)], committed=False)
        except BrokerError:
            break
    assert admin.end_offsets([(topic, 0)], committed=False) == {(topic, 0): 0}


def test_the_input_of_these_tests_is_complete(trial: Trial, link: LastWords) -> None:
    """A feeder that has lost the brokers writes what is missing, and nothing twice."""
    for topic in trial:
        feeder = Feeder(link.servers, topic, keys=20).burst(200)
        link.say_no_brokers()
        with contextlib.suppress(KafkaException):
            feeder.look_up_leaders()
        expected = feeder.burst(200).stop()
        reader = TopicReader(trial.kafka.bootstrap_servers, topic, 1)
        try:
            assert Counter(message.key() for message in reader.read_to_end()) == expected
        finally:
            reader.close()
        if feeder.renewals:
            return
