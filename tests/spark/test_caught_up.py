"""Waiting until an application has processed its input, as seen from outside."""

import pytest
from confluent_kafka import Consumer, TopicPartition
from topics import Topics

from kstreams_worker.errors import KStreamsError, TopicError
from kstreams_worker.pipeline.access import KafkaAccess
from kstreams_worker.pipeline.caught_up import Backlog, wait_until_caught_up
from kstreams_worker.testing.broker import RunningKafka

TIMEOUT_S = 60.0


@pytest.fixture
def application(kafka: RunningKafka) -> str:
    return kafka.unique_name("application")


def commit(kafka: RunningKafka, group: str, *positions: tuple[str, int, int]) -> None:
    """As a member of the group would."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(*position) for position in positions], asynchronous=False)
    consumer.close()


def test_records_not_yet_committed_are_waited_for(
    kafka: RunningKafka, access: KafkaAccess, topics: Topics, application: str
) -> None:
    """Then the error says how many and where."""
    topic = topics.create(partitions=1)
    topics.write(topic, [("a", 1)] * 5)
    with pytest.raises(KStreamsError, match=rf"6 offset\(s\) left, most in {topic}\[0\]"):
        wait_until_caught_up(access, application, [topic], timeout_s=0)
    commit(kafka, application, (topic, 0, 4))
    with Backlog(access, application, [topic]) as backlog:
        assert backlog.committed() == {(topic, 0): 4}
        assert backlog.rest() == {(topic, 0): 2}


def test_commit_markers_are_not_waited_for(
    kafka: RunningKafka, access: KafkaAccess, topics: Topics, application: str
) -> None:
    """They take offsets at the end of a topic that is written in transactions, and are never processed."""
    topic = topics.create(partitions=1)
    topics.write(topic, [("a", 1)] * 5)
    topics.write(topic, [("a", 1)] * 3, transaction="abort")
    commit(kafka, application, (topic, 0, 5))
    wait_until_caught_up(access, application, [topic], timeout_s=TIMEOUT_S)


def test_repartition_topics_are_waited_for(
    kafka: RunningKafka, access: KafkaAccess, topics: Topics, application: str
) -> None:
    """Input that is read but not yet counted is not processed."""
    topic = topics.create(partitions=1)
    between = kafka.create_topic(f"{application}-by-product-repartition", 1)
    topics.write(between, [("a", 1)])
    with Backlog(access, application, [topic]) as backlog:
        assert backlog.rest() == {(between, 0): 2}
        commit(kafka, application, (between, 0, 1))
        assert backlog.rest() == {}


def test_missing_input_is_refused(access: KafkaAccess, application: str) -> None:
    """A misspelt topic has no backlog for ever."""
    with pytest.raises(TopicError, match="not-there"):
        wait_until_caught_up(access, application, ["not-there"], timeout_s=TIMEOUT_S)
