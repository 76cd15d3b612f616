"""Whether an application can run from here: brokers, rights, topics, clock, state directory, disk.

Each check gives findings; one that cannot be made says so and the others go on. Nothing is created or changed that lasts.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from kstreams_worker.config import Settings
from kstreams_worker.errors import KStreamsError
from kstreams_worker.group.client import GroupClient
from kstreams_worker.group.rights import BrokerClock, broker_clock, group_operations
from kstreams_worker.io.admin import Admin
from kstreams_worker.observe.versions import versions
from kstreams_worker.runtime.task_files import translated
from kstreams_worker.runtime.topics import TopologyTopics
from kstreams_worker.topology.topology import Topology
from state.directory import StateDirectory
from state.locks import SharedLook

MIB = 1 << 20
FREE_BYTES_FAIL = 64 * MIB
FREE_BYTES_WARN = 1024 * MIB
FREE_SHARE_WARN = 0.05
CLOCK_WARN_MS = 1_000
"""Record timestamps, retention and --to-datetime compare clocks; nothing breaks by it, but people are misled."""
OLDEST_BROKER = (2, 5)
"""The first with offsets in transactions by generation (KIP-447)."""


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line. `next_step` is empty where there is nothing to do."""

    check: str
    level: Level
    text: str
    next_step: str = ""


def examine(settings: Settings, topology: Topology | None) -> Iterator[Finding]:
    """All findings, as they come. Without a topology nothing is said of topics."""
    told = versions()
    yield Finding("versions", Level.OK, ", ".join(f"{name} {told[name]}" for name in list(told)[:5]))
    yield from _local(settings)
    admin = Admin(settings.client_config("admin"), client_id="kstreams-doctor")
    try:
        cluster = admin.cluster()
    except KStreamsError as error:
        yield Finding("brokers", Level.FAIL, str(error), "check bootstrap.servers, security settings and the network")
        return
    yield Finding("brokers", Level.OK, f"{len(cluster.brokers)} reachable: {', '.join(cluster.brokers)}")
    yield from guarded("group", lambda: _group(settings))
    if topology is not None:
        yield from guarded("topics", lambda: _topics(settings, topology, admin, cluster.operations))


def guarded(check: str, look: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """The findings of a check, and a failure if it cannot be made."""
    try:
        yield from look()
    except KStreamsError as error:
        yield Finding(check, Level.FAIL, str(error), "grant this user the right, or mend what the line says")


# -- brokers ----------------------------------------------------------------------------------------------------------


def _group(settings: Settings) -> Iterator[Finding]:
    group_id = settings.application_id
    with GroupClient.connect(settings.group_plane_config()) as client:
        yield judge_broker_version(client.broker_version)
        yield judge_rights(f"group {group_id}", group_operations(client, group_id), ("READ", "DESCRIBE"))
        if settings.processing_guarantee == "exactly_once_v2":
            yield from _transactions(client, group_id)


def _transactions(client: GroupClient, group_id: str) -> Iterator[Finding]:
    transactional_id = f"{group_id}-doctor"
    try:
        clock = broker_clock(client, group_id, transactional_id)
    except KStreamsError as error:
        yield Finding(
            "transactions",
            Level.FAIL,
            f"no transaction with the id {transactional_id}: {error}",
            f"grant WRITE and DESCRIBE on transactional ids with the prefix {group_id}-, "
            "or set processing.guarantee=at_least_once",
        )
        return
    yield Finding("transactions", Level.OK, f"ids with the prefix {group_id}- can be used")
    yield judge_clock(clock)


def judge_broker_version(version: Sequence[int]) -> Finding:
    """Whether the brokers know what we need."""
    text = f"release line {'.'.join(map(str, version))} or later"
    if tuple(version) < OLDEST_BROKER:
        needed = ".".join(map(str, OLDEST_BROKER))
        return Finding("broker version", Level.FAIL, text, f"exactly once needs Kafka {needed} or later")
    return Finding("broker version", Level.OK, text)


def judge_clock(clock: BrokerClock) -> Finding:
    """Whether this machine and the broker agree on the time."""
    ahead_ms = abs(clock.ahead_ms)
    which = "ahead of" if clock.ahead_ms > 0 else "behind"
    text = f"the broker's is {ahead_ms:,.0f} ms {which} ours (+-{clock.uncertainty_ms:,.0f} ms)"
    if ahead_ms - clock.uncertainty_ms > CLOCK_WARN_MS:
        return Finding("clock", Level.WARN, text, "synchronize both machines' clocks (NTP)")
    return Finding("clock", Level.OK, text)


def judge_rights(what: str, granted: frozenset[str] | None, needed: Sequence[str]) -> Finding:
    """Whether this user may do what is needed."""
    if granted is None:
        return Finding("rights", Level.WARN, f"{what}: the brokers do not say what this user may do")
    lacking = [operation for operation in needed if operation not in granted]
    if lacking:
        return Finding(
            "rights",
            Level.FAIL,
            f"{what}: no {' and '.join(lacking)}",
            f"grant {', '.join(lacking)} on it to this user",
        )
    return Finding("rights", Level.OK, f"{what}: {', '.join(needed)}")


# -- topics -----------------------------------------------------------------------------------------------------------


def _topics(
    settings: Settings, topology: Topology, admin: Admin, cluster_operations: frozenset[str] | None
) -> Iterator[Finding]:
    topics = TopologyTopics(topology, settings.application_id, admin, settings.replication_factor)
    look = topics.look()
    for topic in look.missing:
        yield Finding("topics", Level.FAIL, f"{topic} does not exist", "create it, or correct its name in the topology")
    if look.complaint:
        yield Finding("internal topics", Level.FAIL, look.complaint, "kstreams-worker reset, or undo what has changed")
    elif look.to_create:
        names = ", ".join(look.to_create)
        if cluster_operations is not None and "CREATE" not in cluster_operations:
            prefix = f"{settings.application_id}-"
            step = f"grant CREATE on topics with the prefix {prefix} (perhaps it is granted: then all is well)"
            yield Finding("internal topics", Level.WARN, f"to be created, without CREATE on the cluster: {names}", step)
        else:
            yield Finding("internal topics", Level.OK, f"the first instance will create {names}")
    elif not look.missing:
        yield Finding("internal topics", Level.OK, f"{len(topics.internal_topics())} exist and fit")
    yield from _topic_rights(topics, admin)


def _topic_rights(topics: TopologyTopics, admin: Admin) -> Iterator[Finding]:
    reads, internal = set(topics.input_topics()), set(topics.internal_topics())
    needed: dict[str, tuple[str, ...]] = {
        topic: ("READ" if topic in reads else "WRITE", "DESCRIBE") for topic in topics.all_topics()
    }
    needed |= dict.fromkeys(internal, ("READ", "WRITE", "DESCRIBE"))
    granted = admin.topic_operations(needed)
    findings = [judge_rights(f"topic {topic}", granted[topic], needed[topic]) for topic in sorted(granted)]
    bad = [finding for finding in findings if finding.level is not Level.OK]
    yield from bad or [Finding("rights", Level.OK, f"{len(findings)} topics can be read and written as needed")]


# -- this machine -----------------------------------------------------------------------------------------------------


def _local(settings: Settings) -> Iterator[Finding]:
    root = settings.state_dir.expanduser()
    yield judge_writable(root)
    home = root / settings.application_id
    if home.is_dir():
        yield from guarded("state", lambda: _state(root, settings.application_id))
    yield judge_disk(root)


def _state(root: Path, application_id: str) -> Iterator[Finding]:
    with translated():
        directory = StateDirectory(root, application_id)
        with SharedLook(directory.path / "instance.lock") as look:
            free = look.free
        damaged = directory.damaged_stores()
    held = "no instance runs on it" if free else "an instance runs on it; another one here needs its own state.dir"
    yield Finding("state", Level.OK, f"{directory.path}: {len(directory.tasks())} tasks, {held}")
    for path in damaged:
        yield Finding("state", Level.WARN, f"{path} was damaged and set aside", "delete it once nobody wants to look")


def judge_writable(root: Path) -> Finding:
    """Whether the state directory can be made and written."""
    place = root
    while not place.exists():
        place = place.parent
    probe = place / f".kstreams-doctor-{uuid.uuid4().hex}"
    try:
        if not place.is_dir():
            raise NotADirectoryError(20, os.strerror(20))
        probe.touch()
        probe.unlink()
    except OSError as error:
        text = f"{root} cannot be written: {error.strerror}"
        return Finding(
            "state directory", Level.FAIL, text, "set state.dir to a writable place, or mend its permissions"
        )
    missing = "" if place == root else " (the first instance will make it)"
    return Finding("state directory", Level.OK, f"{root} can be written{missing}")


def judge_disk(root: Path) -> Finding:
    """Whether there is room for state."""
    place = root
    while not place.exists():
        place = place.parent
    usage = shutil.disk_usage(place)
    share = usage.free / usage.total
    text = f"{usage.free / MIB:,.0f} MiB free at {root}, {share:.0%} of it"
    level = Level.OK
    if usage.free < FREE_BYTES_WARN or share < FREE_SHARE_WARN:
        level = Level.WARN
    if usage.free < FREE_BYTES_FAIL:
        level = Level.FAIL
    return Finding("disk", level, text, "" if level is Level.OK else "free space, or set state.dir to a larger disk")
