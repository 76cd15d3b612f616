"""Records that cannot be decoded: the policies, and that nothing is lost by any of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from harness.application import PARTITIONS, Application, application
from harness.history import TopicReader

from kstreams_worker.testing.broker import RunningKafka

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]

BAD_PARTITION = 2


def write_bad_record(app: Application) -> int:
    """One record that is no JSON; returns its offset in partition 2 of the input."""
    offsets: list[int] = []
    producer = Producer({"bootstrap.servers": app.kafka.bootstrap_servers, "log_level": 0})
    producer.produce(
        app.input_topic,
        b"{not json",
        b"bad-key",
        partition=BAD_PARTITION,
        headers=[("trace", b"7")],
        on_delivery=lambda _error, message: offsets.append(message.offset()),
    )
    assert producer.flush(60) == 0
    return offsets[0]


def test_fail_stops_at_the_record_and_skip_goes_on_behind_it(kafka: RunningKafka, tmp_path: Path) -> None:
    """The instance ends with one line that names the record; started again with another policy it loses nothing."""
    with application(kafka, tmp_path) as app:
        app.feeder.burst(2_000)
        bad_offset = write_bad_record(app)
        app.feeder.burst(2_000)

        failing = app.start()
        assert failing.wait() == 1, failing.describe()
        [error] = [line for line in failing.lines() if line["level"] == "error"]
        assert f"{app.input_topic}[{BAD_PARTITION}]@{bad_offset}" in error["event"]
        assert "deserialization.exception.policy" in error["event"]

        app.feeder.start()
        skipping = app.start(deserialization_exception_policy="skip")
        app.until_balanced(skipping)
        [told] = skipping.wait_for_log("undecodable record", action="skip")
        assert (told["topic"], told["partition"], told["offset"]) == (app.input_topic, BAD_PARTITION, bad_offset)
        app.until(
            lambda: skipping.metric("kstreams_record_errors_total", stage="deserialize", action="skip") == 1,
            "the metric counts it",
        )
        app.finish()


def test_dead_letter_keeps_the_record_with_the_reason(kafka: RunningKafka, tmp_path: Path) -> None:
    with application(kafka, tmp_path, deserialization_exception_policy="dead_letter") as app:
        kafka.create_topic(f"{app.id}-dead-letter")
        bad_offset = write_bad_record(app)
        app.feeder.burst(2_000).start()
        instance = app.start()
        app.until_balanced(instance)
        app.finish()

        reader = TopicReader(kafka.bootstrap_servers, f"{app.id}-dead-letter", 1)
        try:
            [letter] = reader.read_to_end()
        finally:
            reader.close()
        assert (letter.key(), letter.value()) == (b"bad-key", b"{not json")
        headers = dict(letter.headers())
        assert headers["trace"] == b"7"
        assert headers["__streams.errors.topic"].decode() == app.input_topic
        assert headers["__streams.errors.partition"] == str(BAD_PARTITION).encode()
        assert headers["__streams.errors.offset"] == str(bad_offset).encode()
        assert headers["__streams.errors.message"].startswith(b"value: ")
        assert headers["__streams.errors.exception"]


def test_a_missing_dead_letter_topic_is_waited_for(kafka: RunningKafka, tmp_path: Path) -> None:
    """Not found out only when the first bad record comes."""
    with application(kafka, tmp_path, deserialization_exception_policy="dead_letter") as app:
        waiting = app.start()
        [warning] = [line for line in waiting.wait_for_level("warning") if "waiting for topic" in line["event"]]
        assert f"{app.id}-dead-letter" in warning["event"]
        kafka.create_topic(f"{app.id}-dead-letter", PARTITIONS)
        app.feeder.burst(1_000).start()
        app.until_balanced(waiting)
        app.finish()
