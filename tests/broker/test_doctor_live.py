"""`kstreams-worker doctor`, before an application has ever run, while it runs, and where it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from harness.application import ALL_TASKS, Application, application
from harness.instances import run_command

from kstreams_worker.devbroker.embedded import EmbeddedBroker
from kstreams_worker.testing.broker import RunningKafka

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]


def doctor(app: Application, *options: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """Exit code, and the findings by check."""
    done = run_command(
        "doctor",
        "harness.topologies:counts",
        "--json",
        *("--application-id", app.id, "--bootstrap-servers", app.kafka.bootstrap_servers),
        *("--set", f"state.dir={app.directory / 'instance-1-state'}"),
        *options,
        environment={"INPUT_TOPIC": app.input_topic, "OUTPUT_TOPIC": app.output_topic},
    )
    assert done.stderr == ""
    told = orjson.loads(done.stdout)
    assert told["ok"] is (done.returncode == 0)
    found: dict[str, list[dict[str, Any]]] = {}
    for finding in told["findings"]:
        found.setdefault(finding["check"], []).append(finding)
    return done.returncode, found


def test_from_nothing_to_a_running_application_and_a_topic_that_does_not_fit(
    kafka: RunningKafka, tmp_path: Path
) -> None:
    """Missing topics fail; with them all is well, before the first start and after; then a changelog of another size."""
    with application(kafka, tmp_path, create_topics=False) as app:
        code, found = doctor(app)
        assert code == 1
        assert [line["level"] for line in found["topics"]] == ["fail", "fail"]
        assert {line["text"] for line in found["topics"]} == {
            f"{topic} does not exist" for topic in (app.input_topic, app.output_topic)
        }

        app.create_topics()
        code, found = doctor(app)
        assert code == 0, found
        changelog = f"{app.id}-counts-changelog"
        assert found["internal topics"][0]["text"] == f"the first instance will create {changelog}"
        assert {line["level"] for lines in found.values() for line in lines} <= {"ok", "warn"}
        assert found["transactions"][0]["level"] == "ok"
        assert found["clock"][0]["level"] == "ok", "the broker is on this very machine"
        assert {line["level"] for line in found["rights"]} == {"ok"}

        app.feeder.burst(500)
        instance = app.start()
        app.until(lambda: instance.tasks() == ALL_TASKS, "it runs all tasks")
        app.until_complete()
        code, found = doctor(app)
        assert code == 0, found
        assert found["internal topics"][0]["text"] == "1 exist and fit"
        assert "4 tasks, an instance runs on it" in found["state"][0]["text"]
        app.finish()


def test_an_internal_topic_that_does_not_fit(kafka: RunningKafka, tmp_path: Path) -> None:
    with application(kafka, tmp_path) as app:
        kafka.create_topic(f"{app.id}-counts-changelog", 3)
        code, found = doctor(app)
        assert code == 1
        [line] = found["internal topics"]
        assert "has 3 partitions, the topology needs 4" in line["text"]


AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


def test_rights_that_lack(tmp_path: Path) -> None:
    """On brokers that authorize: a group that may not be read, a topic that may not be written, no transactional ids."""
    with EmbeddedBroker(1, properties=AUTHORIZER) as broker:
        kafka = RunningKafka(broker.bootstrap_servers, broker)
        with application(kafka, tmp_path) as app:
            assert doctor(app)[0] == 0, "nobody is refused anything"
            rules = [
                (ResourceType.GROUP, app.id, ResourcePatternType.LITERAL, AclOperation.DESCRIBE),
                (ResourceType.TOPIC, app.output_topic, ResourcePatternType.LITERAL, AclOperation.DESCRIBE),
                (ResourceType.TRANSACTIONAL_ID, app.id, ResourcePatternType.PREFIXED, AclOperation.DESCRIBE),
            ]
            # Who is allowed one thing by a rule is not allowed the others by the lack of one.
            allowed = [
                AclBinding(kind, name, pattern, "User:ANONYMOUS", "*", operation, AclPermissionType.ALLOW)
                for kind, name, pattern, operation in rules
            ]
            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
            for future in admin.create_acls(allowed).values():
                future.result(10)

            def refused() -> dict[str, list[dict[str, Any]]] | None:
                code, found = doctor(app)
                return found if code == 1 and found["transactions"][0]["level"] == "fail" else None

            app.until(refused, "the brokers apply the rules")
            found = refused()
            assert found is not None
            assert {line["text"] for line in found["rights"]} == {
                f"group {app.id}: no READ",
                f"topic {app.output_topic}: no WRITE",
            }
            assert "TransactionalIdAuthorizationFailedError" in found["transactions"][0]["text"]
            assert f"prefix {app.id}-" in found["transactions"][0]["next_step"]


def test_brokers_that_do_not_answer(tmp_path: Path) -> None:
    """Told in a line, after what can be said without them."""
    done = run_command(
        "doctor", "--application-id", "a", "--bootstrap-servers", "127.0.0.1:1", "--set", f"state.dir={tmp_path}"
    )
    assert done.returncode == 1
    assert done.stderr == ""
    *local, failure, step = done.stdout.splitlines()
    assert any(line.startswith("ok    state directory") for line in local)
    assert failure.startswith("fail  brokers: cannot reach Kafka at 127.0.0.1:1")
    assert step.strip().startswith("check bootstrap.servers")
