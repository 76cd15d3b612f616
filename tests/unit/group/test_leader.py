"""What a leader remembers, what it takes over from the last one, and when it starts a round by itself."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from assignor.model import (
    AssignorSettings,
    InstanceId,
    LeaderMemory,
    Subscription,
    TaskId,
    WorkerId,
)
from assignor.wire import decode_assignment, encode_subscription
from kstreams_worker.control.records import Memory, Routing
from kstreams_worker.group.leader import DEADLINE_GRACE_MS, Leader, TopicsMissing

TASKS = [TaskId(0, 0), TaskId(0, 1)]
TOPOLOGY = bytes(8)
GONE = WorkerId(InstanceId(b"gone" * 4), 0)


class Topics:
    missing = False

    def tasks(self) -> Mapping[TaskId, bool]:
        if self.missing:
            raise TopicsMissing("waiting for topic orders")
        return dict.fromkeys(TASKS, True)

    def sources(self) -> Mapping[int, tuple[str, ...]]:
        return {0: ("orders",)}


class Clock:
    now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


def said(number: int, **more: object) -> Subscription:
    worker = WorkerId(InstanceId(bytes([number] * 16)), 0)
    return Subscription(worker, TOPOLOGY, name=f"pod-{number}", endpoint=f"pod-{number}:80", **more)  # type: ignore[arg-type]


def round_of(leader: Leader, generation: int, **members: Subscription) -> dict[str, object]:
    answers = leader.assign(
        next(iter(members)), {name: encode_subscription(each) for name, each in members.items()}, generation
    )
    return {name: decode_assignment(answer) for name, answer in answers.items()}


@pytest.fixture
def clock() -> Clock:
    return Clock()


def made(clock: Clock, topics: Topics | None = None, recalled: Memory | None = None) -> Leader:
    return Leader(AssignorSettings(), topics or Topics(), TOPOLOGY, clock, recall=lambda: recalled)


def published(leader: Leader, generation: int) -> Memory:
    memory = leader.to_publish(generation)[0]
    assert isinstance(memory, Memory)
    return memory


LEAVES = said(2, active=frozenset(TASKS), leaving=True, leave_timeout_ms=30_000)


def test_a_deadline_outlives_the_leader(clock: Clock) -> None:
    """The next leader counts on from where the last one began, whatever the leaving member says by then."""
    first = made(clock)
    round_of(first, 7, m1=said(1), m2=LEAVES)
    memory = published(first, 7)
    assert memory.leaving_deadlines_ms == {"m2": clock.now_ms + 30_000}

    clock.now_ms += 20_000
    second = made(clock, recalled=memory)
    round_of(second, 8, m3=said(3), m2=LEAVES)
    assert published(second, 8).leaving_deadlines_ms == memory.leaving_deadlines_ms


def test_a_new_leader_fences_whom_the_last_one_knew(clock: Clock) -> None:
    """Only its memory tells whose transactions may still be open."""
    memory = Memory.of(LeaderMemory(owners={TASKS[0]: GONE}), 7)
    answers = round_of(made(clock, recalled=memory), 8, m1=said(1))
    assert answers["m1"].fence == {GONE}  # type: ignore[attr-defined]
    assert round_of(made(clock), 8, m1=said(1))["m1"].fence == frozenset()  # type: ignore[attr-defined]


def test_its_own_memory_counts_unless_another_has_led_since(clock: Clock) -> None:
    for generation, fenced in ((6, frozenset()), (9, {GONE})):
        recalled: list[Memory | None] = [None]
        leader = Leader(AssignorSettings(), Topics(), TOPOLOGY, clock, recall=lambda r=recalled: r[0])
        round_of(leader, 8, m1=said(1))
        recalled[0] = Memory.of(LeaderMemory(owners={TASKS[0]: GONE}), generation)
        assert round_of(leader, 10, m1=said(1))["m1"].fence == fenced  # type: ignore[attr-defined]


def test_it_starts_a_round_at_a_deadline_once(clock: Clock) -> None:
    """And a moment after it: the member leaves by itself, if it can."""
    leader = made(clock)
    round_of(leader, 7, m1=said(1), m2=LEAVES)
    assert not leader.patience_has_ended()
    clock.now_ms += 30_000
    assert not leader.patience_has_ended()
    clock.now_ms += DEADLINE_GRACE_MS
    assert leader.patience_has_ended()
    round_of(leader, 8, m1=said(1), m2=LEAVES)
    assert not leader.patience_has_ended()


def test_a_round_that_cannot_be_assigned_counts_too(clock: Clock) -> None:
    """Else a leader whose topics are gone would start one round after the other."""
    topics = Topics()
    leader = made(clock, topics)
    round_of(leader, 7, m1=said(1), m2=LEAVES)
    clock.now_ms += 30_000 + DEADLINE_GRACE_MS
    topics.missing = True
    round_of(leader, 8, m1=said(1), m2=LEAVES)
    assert not leader.patience_has_ended()


def test_routing_says_where_each_task_is(clock: Clock) -> None:
    leader = Leader(AssignorSettings(num_standby_tasks=1), Topics(), TOPOLOGY, clock)
    round_of(leader, 7, m1=said(1, active=frozenset(TASKS[:1])), m2=said(2, active=frozenset(TASKS[1:])))
    [_, routes] = leader.to_publish(7)
    assert routes == Routing(
        generation=7, endpoints=("pod-1:80", "pod-2:80"), active={0: (0, 1)}, standbys={0: ((1,), (0,))}
    )


def test_only_the_round_that_it_made_is_published(clock: Clock) -> None:
    leader = made(clock)
    round_of(leader, 7, m1=said(1))
    assert leader.to_publish(8) == []
