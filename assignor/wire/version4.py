"""Metadata version 4: everything a round needs, small enough for groups of thousands of workers.

    Metadata     := int32 4, int32 latest supported version (both big-endian, as in versions 1 to 3), Body
    Body         := byte 0, fields | byte 1, varint size of the fields in bytes, fields compressed with zlib
    Subscription := 16 bytes instance, varint worker index, Bytes topology fingerprint, varint capacity, Text name,
                    byte flags, [Text endpoint], [varint leave timeout ms], [Text upgrade mode],
                    TaskSet active, TaskSet suspended, Copies learners, Copies standbys, Copies dormant
    Assignment   := byte flags, TaskSet active, TaskSet being learned, TaskSet learners, TaskSet standbys,
                    varint workers to fence, each: 16 bytes instance, varint worker index; [byte error, Text why],
                    [varint subtopologies, each: varint number, varint topics, each: Text],
                    [varint reasons, each: byte move case, Text why, TaskSet]

Task sets and copies are described in `task_sets`. Bytes after the last field are ignored. See KIP-268 for the two
leading version numbers and what they are for.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping

from assignor.model import Assignment, AssignmentError, InstanceId, MoveCase, Reason, Subscription, WorkerId
from assignor.wire.errors import MetadataError
from assignor.wire.reader import Reader, block_bytes, text_bytes, varint_bytes
from assignor.wire.task_sets import read_copies, read_tasks, write_copies, write_tasks

VERSION = 4
COMPRESS_FROM_BYTES = 200
"""Below this size compression saves less than the time it takes; a worker with some tens of tasks stays below."""
FIELDS_BYTES_MAX = 16 << 20
"""No metadata is larger: a broker's group record is about 1 MB, and so tight a compression does not occur."""
INDEX_MAX = 2**31 - 1

_HEAD = struct.Struct(">ii")
_PLAIN, _ZLIB = 0, 1
_INSTANCE_BYTES = 16
_HAS_ENDPOINT, _LEAVING, _HAS_LEAVE_TIMEOUT, _HAS_UPGRADE_MODE = 1, 2, 4, 8
_REJOIN, _HAS_ERROR, _HAS_SOURCES, _HAS_REASONS = 1, 2, 4, 8
_CASES = (
    MoveCase.START,
    MoveCase.KEEP,
    MoveCase.GRANT,
    MoveCase.TAKE_OVER,
    MoveCase.LEARN,
    MoveCase.REVOKE,
    MoveCase.HAND_ON,
    MoveCase.FORCE,
    MoveCase.WAIT,
)
"""A case's place is its number on the wire."""


def encode_subscription(subscription: Subscription) -> bytes:
    """What a member says of itself, as bytes. Raises MetadataError for values out of range."""
    flags = _LEAVING if subscription.leaving else 0
    optional = b""
    if subscription.endpoint is not None:
        flags |= _HAS_ENDPOINT
        optional += text_bytes(subscription.endpoint)
    if subscription.leave_timeout_ms is not None:
        flags |= _HAS_LEAVE_TIMEOUT
        optional += varint_bytes(subscription.leave_timeout_ms)
    if subscription.upgrade_mode is not None:
        flags |= _HAS_UPGRADE_MODE
        optional += text_bytes(subscription.upgrade_mode)
    fields = (
        _worker_bytes(subscription.worker),
        block_bytes(subscription.topology),
        varint_bytes(subscription.capacity),
        text_bytes(subscription.name),
        bytes((flags,)),
        optional,
        write_tasks(subscription.active),
        write_tasks(subscription.suspended),
        write_copies(subscription.learners),
        write_copies(subscription.standbys),
        write_copies(subscription.dormant),
    )
    return _HEAD.pack(VERSION, subscription.latest_version) + _pack(b"".join(fields))


def decode_subscription(data: bytes) -> Subscription:
    """What a member said of itself. Raises MetadataError for anything but a whole subscription of version 4."""
    latest_version, reader = _open(data)
    worker = _read_worker(reader)
    topology = reader.block()
    capacity = reader.varint()
    name = reader.text()
    flags = _read_flags(reader, _HAS_ENDPOINT | _LEAVING | _HAS_LEAVE_TIMEOUT | _HAS_UPGRADE_MODE)
    return Subscription(
        worker=worker,
        topology=topology,
        capacity=capacity,
        name=name,
        endpoint=reader.text() if flags & _HAS_ENDPOINT else None,
        leaving=bool(flags & _LEAVING),
        leave_timeout_ms=reader.varint() if flags & _HAS_LEAVE_TIMEOUT else None,
        upgrade_mode=reader.text() if flags & _HAS_UPGRADE_MODE else None,
        active=frozenset(read_tasks(reader)),
        suspended=frozenset(read_tasks(reader)),
        learners=read_copies(reader),
        standbys=read_copies(reader),
        dormant=read_copies(reader),
        used_version=VERSION,
        latest_version=latest_version,
    )


def encode_assignment(assignment: Assignment) -> bytes:
    """What the leader tells one member, as bytes. Raises MetadataError for values out of range."""
    if not assignment.being_learned <= assignment.active:
        raise MetadataError("tasks being learned that are not active")
    failed = assignment.error is not AssignmentError.NONE
    fields = [
        bytes(
            (
                (_REJOIN if assignment.rejoin else 0)
                | (_HAS_ERROR if failed else 0)
                | (_HAS_SOURCES if assignment.sources else 0)
                | (_HAS_REASONS if assignment.reasons else 0),
            )
        ),
        write_tasks(assignment.active),
        write_tasks(assignment.being_learned),
        write_tasks(assignment.learners),
        write_tasks(assignment.standbys),
        varint_bytes(len(assignment.fence)),
    ]
    fields += map(_worker_bytes, sorted(assignment.fence))
    if failed:
        fields += (bytes((assignment.error.value,)), text_bytes(assignment.error_text))
    if assignment.sources:
        fields += _sources_bytes(assignment.sources)
    if assignment.reasons:
        fields += _reasons_bytes(assignment.reasons)
    return _HEAD.pack(VERSION, assignment.latest_version) + _pack(b"".join(fields))


def decode_assignment(data: bytes) -> Assignment:
    """What the leader says. Raises MetadataError for anything but a whole assignment of version 4."""
    latest_version, reader = _open(data)
    flags = _read_flags(reader, _REJOIN | _HAS_ERROR | _HAS_SOURCES | _HAS_REASONS)
    active = frozenset(read_tasks(reader))
    being_learned = frozenset(read_tasks(reader))
    if not being_learned <= active:
        raise reader.fail("tasks being learned that are not active")
    learners = frozenset(read_tasks(reader))
    standbys = frozenset(read_tasks(reader))
    fence = frozenset(_read_worker(reader) for _ in range(reader.count(_INSTANCE_BYTES + 1)))
    error, error_text = AssignmentError.NONE, ""
    if flags & _HAS_ERROR:
        code = reader.byte()
        try:
            error = AssignmentError(code)
        except ValueError:
            raise reader.fail(f"unknown error code {code}") from None
        error_text = reader.text()
    sources = _read_sources(reader) if flags & _HAS_SOURCES else {}
    reasons = _read_reasons(reader) if flags & _HAS_REASONS else ()
    return Assignment(
        active=active,
        being_learned=being_learned,
        learners=learners,
        standbys=standbys,
        rejoin=bool(flags & _REJOIN),
        fence=fence,
        error=error,
        error_text=error_text,
        sources=sources,
        reasons=reasons,
        used_version=VERSION,
        latest_version=latest_version,
    )


def _sources_bytes(sources: Mapping[int, tuple[str, ...]]) -> list[bytes]:
    fields = [varint_bytes(len(sources))]
    for subtopology, topics in sorted(sources.items()):
        fields += (varint_bytes(subtopology), varint_bytes(len(topics)), *map(text_bytes, topics))
    return fields


def _read_sources(reader: Reader) -> dict[int, tuple[str, ...]]:
    return {reader.varint(): tuple(reader.text() for _ in range(reader.count(1))) for _ in range(reader.count(2))}


def _reasons_bytes(reasons: tuple[Reason, ...]) -> list[bytes]:
    fields = [varint_bytes(len(reasons))]
    for case, text, tasks in reasons:
        fields += (bytes((_CASES.index(case),)), text_bytes(text), write_tasks(tasks))
    return fields


def _read_reasons(reader: Reader) -> tuple[Reason, ...]:
    return tuple(
        Reason(_read_case(reader), reader.text(), frozenset(read_tasks(reader))) for _ in range(reader.count(3))
    )


def _read_case(reader: Reader) -> MoveCase:
    code = reader.byte()
    if code >= len(_CASES):
        raise reader.fail(f"unknown move case {code}")
    return _CASES[code]


def _worker_bytes(worker: WorkerId) -> bytes:
    if len(worker.instance) != _INSTANCE_BYTES or worker.index > INDEX_MAX:
        raise MetadataError(f"bad worker: instance of {len(worker.instance)} bytes, index {worker.index}")
    return worker.instance + varint_bytes(worker.index)


def _read_worker(reader: Reader) -> WorkerId:
    instance = InstanceId(reader.raw(_INSTANCE_BYTES))
    index = reader.varint()
    if index > INDEX_MAX:
        raise reader.fail(f"bad worker index {index}")
    return WorkerId(instance, index)


def _read_flags(reader: Reader, known: int) -> int:
    flags = reader.byte()
    if flags & ~known:
        raise reader.fail(f"unknown flags {flags:#x}")
    return flags


def _pack(fields: bytes) -> bytes:
    if len(fields) >= COMPRESS_FROM_BYTES:
        compressed = zlib.compress(fields, 1)
        size = varint_bytes(len(fields))
        if len(compressed) + len(size) < len(fields):
            return b"".join((bytes((_ZLIB,)), size, compressed))
    return bytes((_PLAIN,)) + fields


def _open(data: bytes) -> tuple[int, Reader]:
    """The sender's latest version and a reader of the plain fields."""
    reader = Reader(data)
    used_version, latest_version = _HEAD.unpack(reader.raw(_HEAD.size))
    if used_version != VERSION or latest_version < used_version:
        raise MetadataError(f"not version {VERSION}: used {used_version}, latest {latest_version}")
    packing = reader.byte()
    if packing == _PLAIN:
        return latest_version, reader
    if packing != _ZLIB:
        raise reader.fail(f"unknown packing {packing}")
    size_bytes = reader.varint()
    if size_bytes > FIELDS_BYTES_MAX:
        raise reader.fail(f"{size_bytes} bytes announced, at most {FIELDS_BYTES_MAX} allowed")
    inflate = zlib.decompressobj()
    try:
        # One byte more than announced, so that a stream that is longer is noticed and not cut.
        fields = inflate.decompress(memoryview(data)[reader.position :], size_bytes + 1)
    except zlib.error as error:
        raise reader.fail("broken compression") from error
    if len(fields) != size_bytes or not inflate.eof:
        raise reader.fail(f"{size_bytes} bytes announced, {len(fields)} found")
    return latest_version, Reader(fields)
