"""The control topic may be full of garbage, made wrongly, or out of reach: the group works, and says what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from harness.application import Application, application

from kstreams_worker.testing.broker import RunningKafka

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]

NO_USE = "no use of the control topic"
IGNORED = "ignoring a record on the control topic"


def put_garbage(app: Application) -> None:
    producer = Producer({"bootstrap.servers": app.kafka.bootstrap_servers})
    for key, value in (
        (b"nudge", b"\xff\x00garbage"),
        (b"nudge", b'{"kind":"nudge","version":99,"generation":1,"member":"m"}'),
        (b"leave/me", b"null"),
        (None, b"{}"),
        (b"memory", b'{"kind":"memory","version":1}'),
        (b"\xff\xff", b'{"kind":"something of a later release"}'),
    ):
        producer.produce(f"{app.id}-control", value, key, partition=0)
    producer.flush()


def test_a_topic_of_another_shape_and_full_of_garbage_is_used(kafka: RunningKafka, tmp_path: Path) -> None:
    """Garbage before the start and in the middle of the work: each kind is told once, and orders are heard as ever."""
    with application(kafka, tmp_path) as app:
        kafka.create_topic(f"{app.id}-control", 3, {"cleanup.policy": "delete"})
        put_garbage(app)
        app.feeder.burst(5_000).start()
        first = app.start()
        app.until_balanced(first)
        [told] = first.wait_for_log("the control topic is not as it should be")
        assert "3 partition(s) and cleanup.policy=delete" in told["reason"]
        second = app.start()
        app.until_balanced(first, second)
        put_garbage(app)
        app.scale_down(second)
        assert second.wait() == 0, second.describe()
        app.until_balanced(first)
        for instance in (first, second):
            reasons = [line["reason"] for line in instance.log(IGNORED)]
            assert len(reasons) == len(set(reasons)) >= 3, reasons
            assert not instance.log(NO_USE)
        assert len(first.log("the control topic is not as it should be")) == 1
        app.finish()


def test_without_rights_the_group_works_at_heartbeat_speed(strict_kafka: RunningKafka, tmp_path: Path) -> None:
    """Tasks are learned and move as ever; each worker says once what to grant; the tool says that nobody would hear it."""
    with application(strict_kafka, tmp_path) as app:
        topic = f"{app.id}-control"
        deny = AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            "User:ANONYMOUS",
            "*",
            AclOperation.ALL,
            AclPermissionType.DENY,
        )
        admin = AdminClient({"bootstrap.servers": strict_kafka.bootstrap_servers})
        for done in admin.create_acls([deny]).values():
            done.result()
        app.feeder.burst(5_000).start()
        first = app.start(on_sigterm="handover")
        app.until_balanced(first)
        second = app.start(on_sigterm="handover")
        app.until_balanced(first, second)
        third = app.start()
        app.until_balanced(first, second, third)
        for instance in (first, second, third):
            [told] = instance.wait_for_log(NO_USE)
            assert told["topic"] == topic
            assert all(right in told["to_do"] for right in ("READ", "WRITE", "DESCRIBE"))

        refused = app.command("scale-down", "--instances", second.process_id)
        assert refused.returncode == 1
        assert topic in refused.stderr
        assert "READ, WRITE and DESCRIBE" in refused.stderr
        second.terminate()  # a hand-over on a signal needs no topic
        assert second.wait() == 0, second.describe()
        assert second.log("leaving the group for good")[0]["reason"] == "all tasks are handed over"
        app.until_balanced(first, third)
        assert all(len(instance.log(NO_USE)) == 1 for instance in (first, second, third))
        app.finish()
