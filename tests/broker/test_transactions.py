"""Transactions of a worker's producer: what is acknowledged stays, what fails is undone, whatever happens to the brokers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from harness.history import TopicReader
from harness.waiting import until

from kstreams_worker.config.clients import data_plane_config
from kstreams_worker.group.events import GroupGeneration
from kstreams_worker.io.failures import ProducerLost, TransactionAborted
from kstreams_worker.io.transactions import TransactionalProducer
from kstreams_worker.testing.broker import RunningKafka

pytestmark = pytest.mark.timeout(300)

NOBODY = GroupGeneration(-1, "")
"""Offsets are committed as no member: the group has none."""


class Job:
    """Numbers that are written one after the other, the offset after each in the transaction with it."""

    def __init__(self, kafka: RunningKafka) -> None:
        self.id = kafka.unique_name("job")
        self.topic = f"{self.id}-out"
        self.input = f"{self.id}-in"
        self._servers = kafka.bootstrap_servers
        for topic in (self.topic, self.input):
            kafka.create_topic(topic, 1)

    def producer(
        self, *, transaction_timeout_ms: int = 10_000, commit_timeout_s: float = 60.0, linger_ms: int = 100
    ) -> TransactionalProducer:
        """One more with the same transactional id."""
        return TransactionalProducer(
            data_plane_config(self._servers, {"producer.linger.ms": str(linger_ms)}, "producer"),
            client_id="worker",
            group_id=self.id,
            transactional_id=f"{self.id}-worker",
            transaction_timeout_ms=transaction_timeout_ms,
            commit_timeout_s=commit_timeout_s,
        )

    def send(self, producer: TransactionalProducer, number: int) -> None:
        producer.send(self.topic, [(b"key", str(number).encode(), number)])

    def commit(self, producer: TransactionalProducer, number: int) -> None:
        """What has been sent, and that `number` was the last of it."""
        producer.begin_commit()
        producer.add_offsets({(self.input, 0): number}, NOBODY)
        producer.commit()
        producer.end_commit()

    def committed_offset(self) -> int:
        """As the brokers say, once no transaction is open; 0: there is none."""
        admin = AdminClient({"bootstrap.servers": self._servers, "log_level": 0})
        asked = [ConsumerGroupTopicPartitions(self.id, [TopicPartition(self.input, 0)])]
        answer = admin.list_consumer_group_offsets(asked, require_stable=True, request_timeout=10)
        [found] = answer[self.id].result().topic_partitions
        return max(0, found.offset)

    def numbers(self) -> list[int]:
        """All that was committed, in order."""
        reader = TopicReader(self._servers, self.topic, 1)
        try:
            until(lambda: reader.ends(committed=True) == reader.ends(committed=False), "no transaction is open")
            return [int(message.value() or b"") for message in reader.read_to_end()]
        finally:
            reader.close()


@pytest.fixture
def job(kafka: RunningKafka) -> Job:
    return Job(kafka)


def test_records_and_offsets_are_committed_together_or_not_at_all(job: Job) -> None:
    producer = job.producer()
    job.send(producer, 1)
    job.commit(producer, 1)
    job.send(producer, 2)
    producer.begin_commit()
    producer.add_offsets({(job.input, 0): 2}, NOBODY)
    producer.abort()
    job.send(producer, 3)
    producer.close()
    assert job.numbers() == [1]
    assert job.committed_offset() == 1


def test_what_is_sent_during_a_commit_belongs_to_the_next(job: Job) -> None:
    producer = job.producer()
    job.send(producer, 1)
    producer.begin_commit()
    job.send(producer, 2)
    assert producer.held_rows == 1
    producer.add_offsets({(job.input, 0): 1}, NOBODY)
    producer.commit()
    assert job.numbers() == [1]
    producer.end_commit()
    job.commit(producer, 2)
    producer.close()
    assert job.numbers() == [1, 2]


def test_a_producer_whose_id_was_taken_undoes_its_transaction_and_takes_the_id_back(job: Job) -> None:
    first = job.producer()
    job.send(first, 1)
    job.commit(first, 1)
    job.send(first, 2)
    second = job.producer()
    with pytest.raises(TransactionAborted):
        job.commit(first, 2)
    first.abort()
    job.send(first, 3)
    job.commit(first, 3)
    job.send(second, 4)
    with pytest.raises(TransactionAborted):
        job.commit(second, 4)
    second.close()
    first.close()
    assert job.numbers() == [1, 3]
    assert job.committed_offset() == 3


def test_a_member_that_is_out_of_the_group_commits_nothing(job: Job) -> None:
    producer = job.producer()
    job.send(producer, 1)
    producer.begin_commit()
    with pytest.raises(TransactionAborted):
        producer.add_offsets({(job.input, 0): 1}, GroupGeneration(7, "nobody"))
    producer.abort()
    producer.close()
    assert job.numbers() == []
    assert job.committed_offset() == 0


class Writer(threading.Thread):
    """Writes 1, 2, 3, ... of a job, a transaction each, until it is stopped."""

    def __init__(self, job: Job) -> None:
        super().__init__(name="writer", daemon=True)
        self.last = 0
        """The last number whose commit was acknowledged."""
        self._job = job
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self.start()

    def until_more_than(self, more: int) -> None:
        """Wait until so many more numbers are committed."""
        target = self.last + more

        def reached() -> bool:
            assert self._failure is None, self._failure
            return self.last > target

        until(reached, f"number {target} is committed")

    def stop(self) -> None:
        self._stopping.set()
        self.join()

    def run(self) -> None:
        try:
            producer = self._job.producer()
            while not self._stopping.is_set():
                producer = self._write(producer, self.last + 1)
            producer.close()
        except BaseException as error:
            self._failure = error

    def _write(self, producer: TransactionalProducer, number: int) -> TransactionalProducer:
        try:
            self._job.send(producer, number)
            self._job.commit(producer, number)
        except TransactionAborted:
            producer.abort()
        except ProducerLost:
            producer.close()
            producer = self._job.producer()
            assert self._job.committed_offset() in (number - 1, number)
            self.last = self._job.committed_offset()
        else:
            self.last = number
        return producer


@contextmanager
def frozen(kafka: RunningKafka) -> Iterator[None]:
    """Its only node answers nothing meanwhile."""
    assert kafka.embedded is not None
    kafka.embedded.pause_node(1)
    try:
        yield
    finally:
        kafka.embedded.resume_node(1)


def undo_and_go_on(job: Job, producer: TransactionalProducer) -> None:
    """Of 1, which was committed, and 2, which was not, the first is left; the same producer writes 3."""
    producer.abort()
    job.send(producer, 3)
    job.commit(producer, 3)
    producer.close()
    assert job.numbers() == [1, 3]
    assert job.committed_offset() == 3


def test_what_brokers_do_not_take_in_time_is_given_up_and_another_client_goes_on(own_kafka: RunningKafka) -> None:
    job = Job(own_kafka)
    producer = job.producer(transaction_timeout_ms=1_000)
    job.send(producer, 1)
    job.commit(producer, 1)
    job.send(producer, 2)
    with frozen(own_kafka), pytest.raises(TransactionAborted):
        job.commit(producer, 2)
    undo_and_go_on(job, producer)


def test_a_commit_whose_records_were_not_delivered_is_known_to_have_failed(own_kafka: RunningKafka) -> None:
    """Nothing was asked of the brokers then: the worker goes on with the state that it had."""
    job = Job(own_kafka)
    producer = job.producer(transaction_timeout_ms=5_000, linger_ms=4_900)
    job.send(producer, 1)
    job.commit(producer, 1)
    job.send(producer, 2)
    producer.begin_commit()
    producer.add_offsets({(job.input, 0): 2}, NOBODY)
    with frozen(own_kafka), pytest.raises(TransactionAborted, match="timed out"):
        producer.commit()
    undo_and_go_on(job, producer)


def test_after_a_commit_of_unknown_outcome_the_brokers_say_what_became_of_it(own_kafka: RunningKafka) -> None:
    job = Job(own_kafka)
    producer = job.producer(commit_timeout_s=0.5)
    job.send(producer, 1)
    producer.begin_commit()
    producer.add_offsets({(job.input, 0): 1}, NOBODY)
    with frozen(own_kafka), pytest.raises(ProducerLost):
        producer.commit()
    producer.close()
    following = job.producer()
    last = job.committed_offset()
    assert job.numbers() == list(range(1, last + 1))
    job.send(following, last + 1)
    job.commit(following, last + 1)
    following.close()
    assert job.numbers() == list(range(1, last + 2))


def test_what_was_acknowledged_stays_when_the_broker_restarts(own_kafka: RunningKafka) -> None:
    """In an orderly way and by kill -9, in the midst of commits: each number once, whatever became of the commits."""
    broker = own_kafka.embedded
    assert broker is not None

    def kill() -> None:
        broker.kill_node(1)
        broker.start_node(1)

    restarts: list[Callable[[], None]] = [lambda: broker.restart_node(1), kill]
    jobs = [Job(own_kafka) for _ in range(4)]
    writers = [Writer(job) for job in jobs]
    try:
        for restart in restarts:
            for writer in writers:
                writer.until_more_than(5)
            restart()
        for writer in writers:
            writer.until_more_than(5)
    finally:
        for writer in writers:
            writer.stop()
    for job, writer in zip(jobs, writers, strict=True):
        assert job.committed_offset() == writer.last
        assert job.numbers() == list(range(1, writer.last + 1))
