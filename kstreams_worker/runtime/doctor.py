"""Whether an application can run from here: brokers, rights, topics, clock, state directory, disk.

Each check gives findings; one that cannot be made says so and the others go on. Nothing is created or changed that lasts.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from kstreams_worker.config import Settings
from kstreams_worker.errors import BrokersUnreachable, KStreamsError
from kstreams_worker.group.client import GroupClient
from kstreams_worker.group.rights import BrokerClock, broker_clock, group_operations
from kstreams_worker.io.admin import Admin
from kstreams_worker.observe.versions import versions
from kstreams_worker.runtime.findings import Finding, Level, guarded, judge_rights
from kstreams_worker.runtime.task_files import translated
from kstreams_worker.runtime.topic_access import examine_control, examine_topics
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


def examine(settings: Settings, topology: Topology | None) -> Iterator[Finding]:
    """All findings, as they come. Without a topology nothing is said of its topics."""
    told = versions()
    yield Finding("versions", Level.OK, ", ".join(f"{name} {told[name]}" for name in list(told)[:5]))
    yield from _local(settings)
    admin = Admin(settings.client_config("admin"), client_id="kstreams-doctor")
    try:
        cluster = admin.cluster()
    except BrokersUnreachable as error:
        yield Finding("brokers", Level.FAIL, error.reason, error.next_step)
        return
    except KStreamsError as error:
        yield Finding("brokers", Level.FAIL, str(error), "check bootstrap.servers, security settings and the network")
        return
    yield Finding("brokers", Level.OK, f"{len(cluster.brokers)} reachable: {', '.join(cluster.brokers)}")
    yield from guarded("group", lambda: _group(settings))
    yield from guarded("control topic", lambda: examine_control(settings, admin))
    if topology is not None:
        yield from guarded("topics", lambda: examine_topics(settings, topology, admin))


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
        right = f"WRITE and DESCRIBE on transactional ids with the prefix {group_id}-"
        if "GroupAuthorization" in str(error):
            right = f"READ on group {group_id}"
        step = f"grant {right} to this user, or set processing.guarantee=at_least_once"
        yield Finding("transactions", Level.FAIL, f"no transaction with the id {transactional_id}: {error}", step)
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
