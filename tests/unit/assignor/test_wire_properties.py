"""For every value: decode(encode(x)) = x. For all other bytes: an error, never a crash, never a guess."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

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
    Registry,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from assignor.wire.registry import REGISTRY, VersionCodec

numbers = st.integers(0, 20) | st.integers(0, 2**31 - 1)
tasks = st.builds(TaskId, st.integers(0, 3) | numbers, numbers)
task_sets = st.frozensets(tasks, max_size=12) | st.integers(1, 300).map(
    lambda count: frozenset(TaskId(0, partition) for partition in range(count))
)
copies = st.dictionaries(
    tasks,
    st.builds(CopyState, (st.integers(0, 300) | st.integers(0, 2**64 - 1)).map(LagRecords), st.booleans()),
    max_size=8,
)
workers = st.builds(WorkerId, st.binary(min_size=16, max_size=16).map(InstanceId), numbers)


all_reasons = st.builds(Reason, st.sampled_from(MoveCase), st.text(max_size=20), task_sets)


@st.composite
def assignments(draw: st.DrawFn) -> Assignment:
    active = draw(task_sets)
    error = draw(st.sampled_from(AssignmentError))
    return Assignment(
        active=active,
        being_learned=frozenset(draw(st.sets(st.sampled_from(sorted(active)), max_size=5)) if active else ()),
        learners=draw(task_sets),
        standbys=draw(task_sets),
        rejoin=draw(st.booleans()),
        fence=draw(st.frozensets(workers, max_size=3)),
        error=error,
        error_text=draw(st.text(max_size=20)) if error.value else "",
        sources=draw(st.dictionaries(numbers, st.lists(st.text(max_size=9), max_size=3).map(tuple), max_size=3)),
        reasons=tuple(draw(st.lists(all_reasons, max_size=3))),
        latest_version=draw(st.integers(4, 9)),
    )


any_subscription = st.builds(
    Subscription,
    worker=workers,
    topology=st.binary(max_size=8),
    capacity=numbers,
    name=st.text(max_size=20),
    endpoint=st.none() | st.text(max_size=20),
    active=task_sets,
    suspended=task_sets,
    learners=copies,
    standbys=copies,
    dormant=copies,
    leaving=st.booleans(),
    leave_timeout_ms=st.none() | numbers,
    upgrade_mode=st.none() | st.text(max_size=20),
    latest_version=st.integers(4, 9),
)


@given(any_subscription)
@settings(max_examples=50, deadline=None)
def test_subscriptions_survive_the_wire(subscription: Subscription) -> None:
    """decode(encode(x)) = x."""
    assert decode_subscription(encode_subscription(subscription)) == subscription


@given(assignments())
@settings(max_examples=50, deadline=None)
def test_assignments_survive_the_wire(assignment: Assignment) -> None:
    """decode(encode(x)) = x."""
    assert decode_assignment(encode_assignment(assignment)) == assignment


@given(any_subscription, assignments())
@settings(max_examples=12, deadline=None)
def test_no_truncation_decodes(subscription: Subscription, assignment: Assignment) -> None:
    """However much of a message is missing at its end, it is noticed."""
    whole = encode_subscription(subscription)
    for size_bytes in range(len(whole)):
        with pytest.raises(MetadataError):
            decode_subscription(whole[:size_bytes])
    whole = encode_assignment(assignment)
    for size_bytes in range(len(whole)):
        with pytest.raises(MetadataError):
            decode_assignment(whole[:size_bytes])


@given(st.integers(-1, 5), st.integers(-1, 5), st.integers(0, 2), st.binary(max_size=80))
@example(4, 4, 1, b"\x80\x80\x80\x08" + b"x\x9c")
@settings(max_examples=300, deadline=None)
def test_garbage_is_an_error_and_nothing_else(used: int, latest: int, packing: int, garbage: bytes) -> None:
    """Bytes that begin like metadata and go on as they like never raise anything but MetadataError."""
    data = used.to_bytes(4, "big", signed=True) + latest.to_bytes(4, "big", signed=True) + bytes((packing,)) + garbage
    for decode in (decode_subscription, decode_assignment):
        try:
            decode(data)
        except MetadataError:
            continue


@given(any_subscription, st.data())
@settings(max_examples=50, deadline=None)
def test_flipped_bytes_are_an_error_or_another_value(subscription: Subscription, data: st.DataObject) -> None:
    """A damaged message is refused, or is some other valid subscription that can be written again."""
    damaged = bytearray(encode_subscription(subscription))
    damaged[data.draw(st.integers(8, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        decoded = decode_subscription(bytes(damaged))
    except MetadataError:
        return
    assert isinstance(decoded, Subscription)
    assert decode_subscription(encode_subscription(decoded)) == decoded


def test_a_registry_can_speak_another_version() -> None:
    """A later release adds its codec; what it writes, this release knows as a future version."""
    later = VersionCodec(
        lambda subscription: (5).to_bytes(4, "big") * 2 + subscription.name.encode(),
        lambda data: Subscription(WorkerId(InstanceId(bytes(16)), 0), b"", name=data[8:].decode()),
        lambda assignment: (5).to_bytes(4, "big") * 2,
        lambda data: Assignment(used_version=5, latest_version=5),
    )
    registry = REGISTRY.with_version(5, later)
    said = Subscription(WorkerId(InstanceId(bytes(16)), 0), b"", name="new", used_version=5, latest_version=5)
    assert registry.versions() == (*REGISTRY.versions(), 5)
    assert registry.latest_version == 5
    assert isinstance(registry, Registry)
    assert decode_subscription(registry.encode_subscription(said)) == FutureVersion(5, 5)
    decoded = registry.decode_subscription(registry.encode_subscription(said))
    assert isinstance(decoded, Subscription)
    assert decoded.name == "new"
    assert registry.decode_assignment(registry.encode_assignment(Assignment(used_version=5))).used_version == 5
