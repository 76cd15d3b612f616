"""Where a reset puts the offsets."""

from __future__ import annotations

import pytest

from kstreams_worker.group.positions import Position, ShiftBy, ToEarliest, ToLatest, ToTime, new_offsets

A, B = ("orders", 0), ("orders", 1)


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (ToEarliest(), {A: 10, B: 0}),
        (ToLatest(), {A: 50, B: 5}),
        (ToTime(1_000), {A: 33, B: 5}),
        (ShiftBy(-7), {A: 33, B: 0}),
        (ShiftBy(-1_000), {A: 10, B: 0}),
        (ShiftBy(3), {A: 43, B: 3}),
        (ShiftBy(1_000), {A: 50, B: 5}),
    ],
)
def test_offsets_are_within_what_is_there(position: Position, expected: dict[tuple[str, int], int]) -> None:
    """Nothing newer than a time means the end; nothing committed means the beginning."""
    found = new_offsets(position, [B, A], committed={A: 40}, begins={A: 10, B: 0}, ends={A: 50, B: 5}, at_time={A: 33})
    assert found == expected
    assert list(found) == [A, B]
