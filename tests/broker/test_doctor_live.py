"""`kstreams-worker doctor`, before an application has ever run, while it runs, and where it cannot."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from harness.application import ALL_TASKS, Application, application
from harness.instances import run_command

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


@contextlib.contextmanager
def rules(kafka: RunningKafka, *made: AclBinding) -> Iterator[None]:
    """Access rules for the length of a `with` block."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for done in admin.create_acls(list(made)).values():
        done.result(10)
    yield
    filters = [
        AclBindingFilter(
            each.restype,
            each.name,
            each.resource_pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for each in made
    ]
    for done in admin.delete_acls(filters).values():
        done.result(10)


def rule(
    kind: ResourceType,
    name: str,
    operation: AclOperation,
    *,
    deny: bool = False,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
) -> AclBinding:
    permission = AclPermissionType.DENY if deny else AclPermissionType.ALLOW
    return AclBinding(kind, name, pattern, "User:ANONYMOUS", "*", operation, permission)


def found_in_time(
    app: Application, is_there: Callable[[dict[str, list[dict[str, Any]]]], object]
) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """What the doctor finds once the brokers apply the rules."""
    told: list[tuple[int, dict[str, list[dict[str, Any]]]]] = []

    def look() -> object:
        told.append(doctor(app))
        return is_there(told[-1][1])

    app.until(look, "the brokers apply the rules")
    return told[-1]


def lines(found: dict[str, list[dict[str, Any]]], check: str) -> list[tuple[str, str]]:
    return sorted((line["level"], line["text"]) for line in found[check])


def test_rights_that_lack(strict_kafka: RunningKafka, tmp_path: Path) -> None:
    """A group that may not be read, a topic that may not be written, no transactional ids."""
    with application(strict_kafka, tmp_path) as app:
        assert doctor(app)[0] == 0, "nobody is refused anything"
        # Who is allowed one thing by a rule is not allowed the others by the lack of one.
        allowed = (
            rule(ResourceType.GROUP, app.id, AclOperation.DESCRIBE),
            rule(ResourceType.TOPIC, app.output_topic, AclOperation.DESCRIBE),
            rule(ResourceType.TRANSACTIONAL_ID, app.id, AclOperation.DESCRIBE, pattern=ResourcePatternType.PREFIXED),
        )
        with rules(strict_kafka, *allowed):
            code, found = found_in_time(app, lambda found: found["transactions"][0]["level"] == "fail")
        assert code == 1
        assert {line["text"] for line in found["rights"]} == {
            f"group {app.id}: no READ",
            f"topic {app.output_topic}: no WRITE",
        }
        assert "TransactionalIdAuthorizationFailedError" in found["transactions"][0]["text"]
        assert f"prefix {app.id}-" in found["transactions"][0]["next_step"]


def test_topics_that_may_not_be_created(strict_kafka: RunningKafka, tmp_path: Path) -> None:
    """Without the changelog nothing runs; without the control topic the group is only slower. Looking makes none of them."""
    with application(strict_kafka, tmp_path) as app:
        changelog, control = f"{app.id}-counts-changelog", f"{app.id}-control"
        _, found = doctor(app)
        assert lines(found, "internal topics") == [("ok", f"the first instance will create {changelog}")]
        assert lines(found, "control topic") == [("ok", f"the first instance will create {control}")]
        made = (
            rule(ResourceType.BROKER, "kafka-cluster", AclOperation.ALL),
            rule(ResourceType.BROKER, "kafka-cluster", AclOperation.CREATE, deny=True),
            *(rule(ResourceType.TOPIC, topic, AclOperation.ALL) for topic in (changelog, control)),
            *(rule(ResourceType.TOPIC, topic, AclOperation.CREATE, deny=True) for topic in (changelog, control)),
        )
        with rules(strict_kafka, *made):
            code, found = found_in_time(app, lambda found: found["control topic"][0]["level"] == "warn")
            assert code == 1
            [(level, text)] = lines(found, "internal topics")
            assert level == "fail"
            assert text.startswith(f"{changelog} cannot be created: ")
            step = found["internal topics"][0]["next_step"]
            assert step.startswith("grant CREATE, READ, WRITE, DESCRIBE, DESCRIBE_CONFIGS on topics with the prefix")
            [line] = found["control topic"]
            assert line["text"].startswith(f"{control} cannot be created: ")
            assert line["next_step"].startswith("grant CREATE, READ, WRITE, DESCRIBE, DESCRIBE_CONFIGS on it")
            assert "scale-down is not heard" in line["next_step"]
        app.until(lambda: doctor(app)[0] == 0, "the rules are gone")


def test_topics_that_may_not_be_used(strict_kafka: RunningKafka, tmp_path: Path) -> None:
    """One line for each, with what to grant: an input that may not be seen, a changelog, the control topic."""
    with application(strict_kafka, tmp_path) as app:
        changelog, control = f"{app.id}-counts-changelog", f"{app.id}-control"
        strict_kafka.create_topic(changelog, 4, {"cleanup.policy": "compact"})
        strict_kafka.create_topic(control, 1, {"cleanup.policy": "compact"})
        code, found = doctor(app)
        assert code == 0
        assert lines(found, "control topic") == [("ok", f"{control}: READ, WRITE, DESCRIBE, DESCRIBE_CONFIGS")]
        refused = {app.input_topic: "DESCRIBE", changelog: "DESCRIBE_CONFIGS", control: "WRITE", app.id: "DESCRIBE"}
        made = []
        for name, operation in refused.items():
            kind = ResourceType.GROUP if name == app.id else ResourceType.TOPIC
            made.append(rule(kind, name, AclOperation.ALL))
            made.append(rule(kind, name, AclOperation[operation], deny=True))
        with rules(strict_kafka, *made):
            code, found = found_in_time(
                app, lambda found: len([line for line in found["rights"] if line["level"] == "fail"]) == 3
            )
        assert code == 1
        assert lines(found, "rights") == [
            ("fail", f"group {app.id}: this user may not see it"),
            ("fail", f"topic {changelog}: no DESCRIBE_CONFIGS"),
            ("fail", f"topic {app.input_topic}: this user may not see it"),
        ]
        assert {line["next_step"] for line in found["rights"]} == {
            "grant READ, DESCRIBE on it to this user",
            "grant DESCRIBE_CONFIGS on it to this user",
        }
        assert lines(found, "control topic") == [("warn", f"{control}: no WRITE")]
        assert found["control topic"][0]["next_step"].startswith("grant WRITE on it to this user; without it")
        assert "topics" not in found
        assert "internal topics" not in found, "it is said already why nobody can look"


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
