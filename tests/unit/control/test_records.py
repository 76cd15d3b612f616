"""The records of the control topic: what is written is read back, and nothing that is written can break a reader."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.model import InstanceId, LeaderMemory, MemberId, TaskId, WorkerId
from kstreams_worker.control.board import COMPLAINTS_MAX, ControlBoard
from kstreams_worker.control.records import (
    REASON_CHARACTERS_MAX,
    BadRecord,
    LeaveOrder,
    Memory,
    Nudge,
    Record,
    Routing,
    decode,
    encode,
    leave_key,
)

INSTANCE = UUID(int=7)
ORDER = LeaveOrder(
    instance=INSTANCE, name="pod-3", addresses=("10.0.0.7",), timeout_ms=60_000, ordered_ms=1_700_000_000_000
)
NUDGE = Nudge(generation=4, member="m-1", ready=("0_1", "2_30"))

workers = st.builds(
    WorkerId, st.binary(min_size=16, max_size=16).map(InstanceId), st.integers(min_value=0, max_value=255)
)
tasks = st.builds(TaskId, st.integers(min_value=0, max_value=5), st.integers(min_value=0, max_value=40))
members = st.text(min_size=1, max_size=20).map(MemberId)
memories = st.builds(
    LeaderMemory,
    participants=st.dictionaries(members, workers, max_size=6),
    owners=st.dictionaries(tasks, workers, max_size=20),
    leaving_deadlines_ms=st.dictionaries(members, st.integers(min_value=0, max_value=2**45), max_size=3),
)


@pytest.mark.parametrize(
    "record",
    [
        ORDER,
        LeaveOrder(instance=INSTANCE, ordered_ms=0),
        NUDGE,
        Nudge(generation=0, member="", ready=None),
        Routing(generation=3, endpoints=("a:1", "b:2"), active={0: (0, -1, 1)}, standbys={0: ((1,), (), (0, 1))}),
    ],
)
def test_a_record_is_read_as_it_was_written(record: Record) -> None:
    assert decode(*encode(record)) == record


@given(memories, st.integers(min_value=0, max_value=2**31 - 1))
def test_a_memory_is_recalled_as_it_was_published(memory: LeaderMemory, generation: int) -> None:
    """With owners of tasks whose numbers leave gaps, and of workers that take part no longer."""
    record = decode(*encode(Memory.of(memory, generation)))
    assert isinstance(record, Memory)
    assert (record.recalled(), record.generation) == (memory, generation)


@pytest.mark.parametrize(
    ("timeout_ms", "default_ms", "waited_ms", "remaining_ms"),
    [
        (None, None, 5_000, None),
        (None, 60_000, 5_000, 55_000),
        (10_000, 60_000, 4_000, 6_000),
        (10_000, None, 40_000, 0),
        (10_000, None, -3_000, 10_000),
        (0, 60_000, 0, 0),
    ],
)
def test_an_order_read_late_has_what_is_left_of_its_time(
    timeout_ms: int | None, default_ms: int | None, waited_ms: int, remaining_ms: int | None
) -> None:
    """A worker that crashed and came back does not begin to wait anew."""
    order = ORDER.model_copy(update={"timeout_ms": timeout_ms})
    assert order.remaining_ms(default_ms, order.ordered_ms + waited_ms) == remaining_ms


def test_a_large_groups_memory_fits_a_record() -> None:
    """1 000 workers and 10 000 tasks, against Kafka's default limit of 1 MiB for a record."""
    owners = {TaskId(0, n): WorkerId(InstanceId((n % 250).to_bytes(16, "big")), n % 4) for n in range(10_000)}
    named = {MemberId(f"orders-pod-{n}-{UUID(int=n)}"): worker for n, worker in enumerate(sorted({*owners.values()}))}
    _, value = encode(Memory.of(LeaderMemory(participants=named, owners=owners), 9))
    assert len(value) < 256 * 1024


GARBAGE = [
    (b"nudge", b""),
    (b"nudge", b"\xff\xfe\x00"),
    (b"nudge", b"{}"),
    (b"nudge", b"[" * 100_000),
    (b"nudge", b'"nudge"'),
    (b"nudge", NUDGE.model_dump_json().replace('"version":1', '"version":2').encode()),
    (b"nudge", NUDGE.model_dump_json().replace('"nudge"', '"notion"').encode()),
    (b"nudge", NUDGE.model_dump_json().replace("0_1", "0/1").encode()),
    (b"nudge", NUDGE.model_dump_json().replace('"generation":4', '"generation":-4').encode()),
    (b"memory", NUDGE.model_dump_json().encode()),
    (None, NUDGE.model_dump_json().encode()),
    (leave_key(UUID(int=8)).encode(), ORDER.model_dump_json().encode()),
    (
        b"memory",
        json.dumps(
            {
                "kind": "memory",
                "version": 1,
                "generation": 1,
                "workers": [],
                "participants": {"m": 0},
                "owners": {},
                "leaving_deadlines_ms": {},
            }
        ).encode(),
    ),
    (b"routing", b'{"kind":"routing","version":1,"generation":1,"endpoints":["a:1"],"active":{"0":[1]},"standbys":{}}'),
    (b"routing", b'{"kind":"routing","version":1,"generation":1,"endpoints":[],"active":{},"standbys":{"0":[[-1]]}}'),
]


@pytest.mark.parametrize(("key", "value"), GARBAGE)
def test_garbage_and_unknown_versions_are_refused(key: bytes | None, value: bytes) -> None:
    with pytest.raises(BadRecord):
        decode(key, value)


@pytest.mark.parametrize("field", ["kind", "ready"])
def test_what_is_wrong_with_a_record_is_told_in_few_words(field: str) -> None:
    """However much there is of it: anybody who may write to the topic would fill the logs."""
    much = "x" * 1_000_000
    value = json.dumps({**json.loads(NUDGE.model_dump_json()), field: much if field == "kind" else [much]})
    with pytest.raises(BadRecord) as refused:
        decode(b"nudge", value.encode())
    assert len(str(refused.value)) < 2 * REASON_CHARACTERS_MAX


@given(st.one_of(st.none(), st.binary(max_size=30)), st.one_of(st.none(), st.binary(max_size=200)))
def test_no_bytes_break_the_board(key: bytes | None, value: bytes | None) -> None:
    board = ControlBoard("orders-control")
    board.take(*encode(ORDER))
    board.take(key, value)
    assert board.orders == {INSTANCE: ORDER}


def test_fields_of_later_releases_are_ignored() -> None:
    """What an old reader may ignore is added without a new version."""
    value = json.dumps({**json.loads(NUDGE.model_dump_json()), "mood": "calm"}).encode()
    assert decode(b"nudge", value) == NUDGE


def test_the_board_shows_the_newest_of_each_key() -> None:
    board = ControlBoard("orders-control")
    later = ORDER.model_copy(update={"timeout_ms": 5})
    assert board.take(*encode(ORDER)) == INSTANCE
    assert board.take(*encode(later)) == INSTANCE
    assert board.orders == {INSTANCE: later}
    for generation in (3, 4):
        board.take(*encode(Memory.of(LeaderMemory(), generation)))
        board.take(*encode(Routing(generation=generation, endpoints=(), active={}, standbys={})))
    assert (board.memory and board.memory.generation, board.routing and board.routing.generation) == (4, 4)
    assert board.take(*encode(NUDGE)) == NUDGE


def test_deleting_its_key_takes_an_order_back() -> None:
    """Whether it was taken back or carried out; deleting other keys changes nothing."""
    board = ControlBoard("orders-control")
    board.take(*encode(ORDER))
    assert board.take(b"nudge", None) is None
    assert board.take(b"leave/nonsense", None) is None
    assert board.take(leave_key(UUID(int=8)).encode(), None) is None
    assert board.orders == {INSTANCE: ORDER}
    assert board.take(leave_key(INSTANCE).encode(), None) == INSTANCE
    assert board.orders == {}


def test_each_kind_of_garbage_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    board = ControlBoard("orders-control")
    for _ in range(3):
        board.take(b"nudge", b"{}")
        board.take(b"nudge", b"garbage")
    said = capsys.readouterr().out
    assert said.count("ignoring a record on the control topic") == 2
    for number in range(2 * COMPLAINTS_MAX):
        board.take(b"nudge", b'{"kind":"kind-%d"}' % number)
    said += capsys.readouterr().out
    assert said.count("ignoring a record on the control topic") <= COMPLAINTS_MAX
