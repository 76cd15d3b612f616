"""Whether the topics of an application are there or can be created, and can be used as its workers use them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from kstreams_worker.config import Settings
from kstreams_worker.control import control_topic
from kstreams_worker.errors import BrokerError
from kstreams_worker.io.admin import Admin, Refusal
from kstreams_worker.runtime.findings import Finding, Level, judge_rights
from kstreams_worker.runtime.topics import TopologyTopics, control_spec
from kstreams_worker.topology.topology import Topology

OWN = ("READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS")
"""What workers do with the topics that they create: each leader looks at the clean-up policy, too."""
ALL = ", ".join(("CREATE", *OWN))


def examine_control(settings: Settings, admin: Admin) -> Iterator[Finding]:
    """The control topic, without which the group works, but slower and deaf to orders."""
    topic = control_topic(settings.application_id)
    granted = admin.topic_operations([topic])
    means = "; without it rounds go at the speed of heartbeats and scale-down is not heard"
    if topic in granted:
        found = judge_own(topic, granted[topic])
        found = replace(found, next_step=found.next_step and found.next_step + means)
    else:
        refused = admin.refused_topics([control_spec(settings.application_id, settings.replication_factor)])
        found = Finding("", Level.OK, f"the first instance will create {topic}")
        if refused:
            step = f"grant {ALL} on it to this user, or create it (one partition, cleanup.policy=compact)"
            found = Finding("", Level.WARN, f"{topic} cannot be created: {refused[topic].reason}", step + means)
    yield replace(found, check="control topic", level=Level.OK if found.level is Level.OK else Level.WARN)


def examine_topics(settings: Settings, topology: Topology, admin: Admin) -> Iterator[Finding]:
    """Inputs, outputs, repartition topics and changelogs."""
    dead_letters = settings.deserialization_exception_policy == "dead_letter"
    topics = TopologyTopics(
        topology,
        settings.application_id,
        admin,
        settings.replication_factor,
        other_topics=[settings.dead_letter_topic] if dead_letters else (),
    )
    needed = _needed(topics)
    granted = admin.topic_operations(needed)
    internal = topics.internal_topics()
    rights = [
        judge_own(f"topic {topic}", granted[topic])
        if topic in internal
        else judge_rights(f"topic {topic}", granted[topic], needed[topic])
        for topic in sorted(granted)
    ]
    bad = [finding for finding in rights if finding.level is not Level.OK]
    yield from bad or [Finding("rights", Level.OK, f"{len(rights)} topics can be read and written as needed")]
    try:
        look = topics.look()
    except BrokerError:
        if not bad:
            raise
        return  # what is bad is why
    for topic in look.missing:
        if topic not in granted:
            step = "create it, or correct its name in the topology"
            yield Finding("topics", Level.FAIL, f"{topic} does not exist", step)
    if look.complaint:
        yield Finding("internal topics", Level.FAIL, look.complaint, "kstreams-worker reset, or undo what has changed")
        return
    to_create = [spec for spec in look.to_create if spec.name not in granted]
    refused = admin.refused_topics(to_create)
    yield from _refused(refused, settings.application_id)
    creatable = [spec.name for spec in to_create if spec.name not in refused]
    if creatable:
        yield Finding("internal topics", Level.OK, f"the first instance will create {', '.join(creatable)}")
    elif not look.missing and not look.to_create:
        yield Finding("internal topics", Level.OK, f"{len(internal)} exist and fit")


def judge_own(what: str, granted: frozenset[str] | None) -> Finding:
    """The rights on a topic that the workers create, if it does not exist."""
    found = judge_rights(what, granted, OWN)
    if granted == frozenset():
        return replace(found, next_step=f"grant {ALL} on it to this user")
    return found


def _needed(topics: TopologyTopics) -> dict[str, tuple[str, ...]]:
    """The operations on each topic. One that is input and output is read and written."""
    inputs, outputs = set(topics.input_topics()), set(topics.output_topics())
    external = {
        topic: (*(["READ"] if topic in inputs else []), *(["WRITE"] if topic in outputs else []), "DESCRIBE")
        for topic in topics.external_topics()
    }
    return external | dict.fromkeys(topics.internal_topics(), OWN)


def _refused(refused: Mapping[str, Refusal], application_id: str) -> Iterator[Finding]:
    for topic, refusal in refused.items():
        step = "set replication.factor or the brokers' rules so that it can be created, or create it yourself"
        if refusal.lacks_right:
            step = f"grant {ALL} on topics with the prefix {application_id}- to this user"
        yield Finding("internal topics", Level.FAIL, f"{topic} cannot be created: {refusal.reason}", step)
