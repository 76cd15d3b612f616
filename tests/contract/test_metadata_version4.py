"""The exact bytes of metadata version 4. They are a contract with every running member: what fails here needs a new version.

Compressed bytes are only decoded: another zlib may write others for the same content.
"""

from __future__ import annotations

import struct
import zlib

import pytest

from assignor.model import (
    Assignment,
    AssignmentError,
    CopyState,
    InstanceId,
    LagRecords,
    MoveCase,
    Reason,
    Subscription,
    TaskId,
    WorkerId,
)
from assignor.wire import (
    FutureVersion,
    MetadataError,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

INSTANCE = InstanceId(bytes(range(16)))
HEAD = "00000004 00000004 00 "


SOURCES = {0: ("orders", "returns"), 3: ("späte",)}


TWO_TASKS = frozenset({TaskId(0, 0), TaskId(0, 1)})


def copy(lag: int, ready: bool = False) -> CopyState:
    return CopyState(LagRecords(lag), ready)


SUBSCRIPTIONS = {
    "nothing but itself": (
        Subscription(WorkerId(INSTANCE, 0), b"\xfe" * 8),
        HEAD + "000102030405060708090a0b0c0d0e0f 00 08 fefefefefefefefe 01 00 00 00 00 00 00 00",
    ),
    "everything at once": (
        Subscription(
            worker=WorkerId(INSTANCE, 300),
            topology=b"\x01\x02\x03\x04\x05\x06\x07\x08",
            capacity=4,
            name="pod-é",
            endpoint="[::1]:80",
            active=frozenset({TaskId(0, 0), TaskId(0, 1), TaskId(2, 300)}),
            suspended=frozenset({TaskId(0, 5)}),
            learners={TaskId(1, 7): copy(0, ready=True), TaskId(1, 9): copy(70_000)},
            standbys={TaskId(1, 3): copy(0)},
            dormant={TaskId(3, 1): copy(255, ready=True), TaskId(3, 2): copy(1, ready=True)},
            leaving=True,
            leave_timeout_ms=60_000,
            upgrade_mode="in_place",
        ),
        HEAD + "000102030405060708090a0b0c0d0e0f ac02 08 0102030405060708 04 06 706f642dc3a9 0f"
        "08 5b3a3a315d3a3830 e0d403 08 696e5f706c616365"
        "02 00 08 00 01 02 05 2c01"  # active: 0_0 0_1, then subtopology +2 with one gap of two bytes
        "01 00 04 05"  # suspended: 0_5
        "01 01 08 07 02 13 00000000 70110100 01"  # learners: lags of four bytes, ready as bits
        "01 01 04 03 00"  # standbys: no lag, not ready
        "01 03 08 01 01 09 ff 01",  # dormant: lags of one byte, all ready
    ),
}

ASSIGNMENTS = {
    "nothing": (Assignment(), HEAD + "00 00 00 00 00 00"),
    "everything at once": (
        Assignment(
            active=frozenset({TaskId(0, 1), TaskId(0, 2)}),
            being_learned=frozenset({TaskId(0, 2)}),
            learners=frozenset({TaskId(1, 70_000)}),
            standbys=frozenset({TaskId(5, 0)}),
            rejoin=True,
            fence=frozenset({WorkerId(INSTANCE, 1)}),
            error=AssignmentError.ASSIGNMENT_FAILED,
            error_text="too large",
        ),
        HEAD + "03 01 00 08 01 01 01 00 04 02 01 01 06 70110100 01 05 04 00"
        "01 000102030405060708090a0b0c0d0e0f 01 04 09 746f6f206c61726765",
    ),
    "to the leader, with source topics": (
        Assignment(sources=SOURCES),
        HEAD + "04 00 00 00 00 00 02 00 02 06 6f7264657273 07 72657475726e73 03 01 06 7370c3a47465",
    ),
    "to the leader, with reasons": (
        Assignment(reasons=(Reason(MoveCase.START, "room", TWO_TASKS), Reason(MoveCase.WAIT, "", frozenset()))),
        HEAD + "08 00 00 00 00 00 02 00 04 726f6f6d 01 00 08 00 01 08 00 00",
    ),
}


@pytest.mark.parametrize("name", SUBSCRIPTIONS)
def test_subscription_bytes(name: str) -> None:
    """Written exactly so, and read back the same; bytes that a later release appends are ignored."""
    subscription, golden = SUBSCRIPTIONS[name]
    assert encode_subscription(subscription).hex() == bytes.fromhex(golden).hex()
    assert decode_subscription(bytes.fromhex(golden)) == subscription
    assert decode_subscription(bytes.fromhex(golden) + b"appended") == subscription


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_assignment_bytes(name: str) -> None:
    """Written exactly so, and read back the same; bytes that a later release appends are ignored."""
    assignment, golden = ASSIGNMENTS[name]
    assert encode_assignment(assignment).hex() == bytes.fromhex(golden).hex()
    assert decode_assignment(bytes.fromhex(golden)) == assignment
    assert decode_assignment(bytes.fromhex(golden) + b"appended") == assignment


def test_compressed_subscription_is_read() -> None:
    """Byte 1 in place of byte 0: the size of the fields, then the fields compressed."""
    golden = bytes.fromhex(
        "00000004 00000004 01 c506 78016360646266616563e7e0e4e2e6e1e5e367e0f80f058c"
        "0c0c8c0c0d920c8ca3603404464300570830000100d9b40c33"
    )
    many = Subscription(WorkerId(INSTANCE, 0), b"\xff" * 8, active=frozenset(TaskId(0, p) for p in range(800)))
    assert decode_subscription(golden) == many
    assert decode_subscription(encode_subscription(many)) == many
    assert len(encode_subscription(many)) < 100


def test_error_codes_stay() -> None:
    """Their numbers are on the wire."""
    assert {error.name: error.value for error in AssignmentError} == {
        "NONE": 0,
        "MISSING_INPUT_TOPICS": 1,
        "TOPOLOGY_MISMATCH": 2,
        "INTERNAL_TOPIC_MISMATCH": 3,
        "ASSIGNMENT_FAILED": 4,
    }


def test_case_codes_stay() -> None:
    """Their order is on the wire; a new case comes last."""
    order = ["START", "KEEP", "GRANT", "TAKE_OVER", "LEARN", "REVOKE", "HAND_ON", "FORCE", "WAIT"]
    told = Assignment(reasons=tuple(Reason(MoveCase[name], "", frozenset()) for name in order))
    assert encode_assignment(told).endswith(bytes.fromhex("09" + "".join(f"{code:02x}0000" for code in range(9))))


@pytest.mark.parametrize("tail", [b"", b"unknown fields"])
def test_subscription_of_a_later_release(tail: bytes) -> None:
    """Only the two version numbers are read, whatever follows."""
    assert decode_subscription(struct.pack(">ii", 5, 7) + tail) == FutureVersion(5, 7)


BROKEN = {
    "no bytes": b"",
    "half a version": b"\0\0\0",
    "version 0": struct.pack(">ii", 0, 4),
    "negative version": struct.pack(">ii", -1, 4),
    "future version without latest": struct.pack(">i", 5),
    "used above latest": struct.pack(">ii", 6, 5),
    "used above latest in our version": struct.pack(">ii", 4, 3) + bytes(60),
    "unknown packing": struct.pack(">iib", 4, 4, 2) + bytes(60),
    "unknown flags": struct.pack(">iib", 4, 4, 0) + INSTANCE + b"\0\0\1\0\xff" + bytes(60),
    "compression that is none": struct.pack(">iib", 4, 4, 1) + b"\x20" + bytes(32),
    "compression bomb": struct.pack(">iib", 4, 4, 1) + b"\xff\xff\xff\xff\x0f" + zlib.compress(bytes(100)),
    "longer than it says": struct.pack(">iib", 4, 4, 1) + b"\x05" + zlib.compress(bytes(100)),
    "shorter than it says": struct.pack(">iib", 4, 4, 1) + b"\x7f" + zlib.compress(bytes(100)),
    "compression cut off": struct.pack(">iib", 4, 4, 1) + b"\x64" + zlib.compress(bytes(100))[:-1],
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_metadata_is_refused(name: str) -> None:
    """A clear error, and no allocation for what was only announced."""
    with pytest.raises(MetadataError):
        decode_subscription(BROKEN[name])
    with pytest.raises(MetadataError):
        decode_assignment(BROKEN[name])


def test_assignment_of_a_later_release_is_refused() -> None:
    """A leader answers in a version that its members know; anything else is an error for the member."""
    with pytest.raises(MetadataError, match="version 5"):
        decode_assignment(struct.pack(">ii", 5, 5))


PREFIX = bytes.fromhex(HEAD)
TASK_SETS = {
    "more groups than bytes": b"\xff\xff\xff\x7f",
    "more tasks than bytes": b"\x01\x00\xfc\xff\xff\x7f",
    "a group without tasks": b"\x01\x00\x00\x00",
    "unknown gap width": b"\x01\x00\x07\x01\x00\x00\x00\x00",
    "a task twice": b"\x01\x00\x08\x01\x00",
    "a subtopology twice": b"\x02\x00\x04\x01\x00\x04\x01",
    "partition above 31 bits": b"\x01\x00\x06\xff\xff\xff\xff",
    "sum of gaps above 31 bits": b"\x01\x00\x0a\xff\xff\xff\x7f\x01\x00\x00\x00",
    "subtopology above 31 bits": b"\x01\xff\xff\xff\xff\x0f\x04\x01",
    "number that does not end": b"\x01" + b"\xff" * 11,
}


@pytest.mark.parametrize("name", TASK_SETS)
def test_broken_task_sets_are_refused(name: str) -> None:
    """No set of tasks has a second form, and none is built before its count is known to fit."""
    with pytest.raises(MetadataError):
        decode_assignment(PREFIX + b"\0" + TASK_SETS[name] + bytes(8))


UNWRITABLE = {
    "negative partition": Subscription(WorkerId(INSTANCE, 0), b"", active=frozenset({TaskId(0, -1)})),
    "partition above 31 bits": Subscription(WorkerId(INSTANCE, 0), b"", active=frozenset({TaskId(0, 2**31)})),
    "negative subtopology": Subscription(WorkerId(INSTANCE, 0), b"", active=frozenset({TaskId(-1, 0), TaskId(0, 0)})),
    "negative lag": Subscription(WorkerId(INSTANCE, 0), b"", standbys={TaskId(0, 0): copy(-1)}),
    "lag above 64 bits": Subscription(WorkerId(INSTANCE, 0), b"", standbys={TaskId(0, 0): copy(2**64)}),
    "instance of the wrong size": Subscription(WorkerId(InstanceId(b"short"), 0), b""),
    "negative worker": Subscription(WorkerId(INSTANCE, -1), b""),
    "version that we do not speak": Subscription(WorkerId(INSTANCE, 0), b"", used_version=2),
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_values_that_do_not_fit_are_refused(name: str) -> None:
    """Better an error at the sender than bytes that mean something else."""
    with pytest.raises(MetadataError):
        encode_subscription(UNWRITABLE[name])


def test_only_active_tasks_can_be_learned() -> None:
    """Neither written nor read otherwise."""
    with pytest.raises(MetadataError):
        encode_assignment(Assignment(being_learned=frozenset({TaskId(0, 0)})))
    with pytest.raises(MetadataError):
        decode_assignment(PREFIX + bytes.fromhex("00 00 01 00 04 00 00 00 00"))


def test_unknown_move_case_is_refused() -> None:
    """Nobody is told a reason that we cannot name."""
    with pytest.raises(MetadataError, match="move case 9"):
        decode_assignment(PREFIX + bytes.fromhex("08 00 00 00 00 00 01 09 00 00"))


def test_unknown_error_code_is_refused() -> None:
    """An error that we cannot name is not taken for none."""
    with pytest.raises(MetadataError, match="error code 99"):
        decode_assignment(PREFIX + bytes.fromhex("02 00 00 00 00 00 63 00"))
