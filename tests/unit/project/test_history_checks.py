"""The checks that judge the outputs of real runs can fail: each kind of wrong output is found."""

import pytest
from harness.history import Check, check_at_least_once, check_every_update, check_exactly_once

EXPECTED = {b"a": 3, b"b": 2}


@pytest.mark.parametrize(
    ("check", "values"),
    [
        (check_exactly_once, {b"a": [1, 3], b"b": [2]}),
        (check_every_update, {b"a": [1, 2, 3], b"b": [1, 2]}),
        (check_at_least_once, {b"a": [1, 3, 2, 4], b"b": [2, 2]}),
    ],
)
def test_right_outputs_pass(check: Check, values: dict[bytes, list[int]]) -> None:
    check(values, EXPECTED)


@pytest.mark.parametrize(
    ("check", "values", "complaint"),
    [
        (check_exactly_once, {b"a": [1, 3]}, "keys differ"),
        (check_exactly_once, {b"a": [1, 3], b"b": [2], b"c": [1]}, "keys differ"),
        (check_exactly_once, {b"a": [1, 2, 2, 3], b"b": [2]}, "counted twice"),
        (check_exactly_once, {b"a": [1, 3, 2, 3], b"b": [2]}, "counted twice"),
        (check_exactly_once, {b"a": [1, 2], b"b": [2]}, "wrong count"),
        (check_exactly_once, {b"a": [1, 4], b"b": [2]}, "wrong count"),
        (check_every_update, {b"a": [1, 3], b"b": [1, 2]}, "miss or repeat"),
        (check_every_update, {b"a": [1, 2, 2, 3], b"b": [1, 2]}, "miss or repeat"),
        (check_at_least_once, {b"a": [1, 2], b"b": [2]}, "too low"),
        (check_at_least_once, {b"a": [3]}, "keys differ"),
    ],
)
def test_wrong_outputs_are_found(check: Check, values: dict[bytes, list[int]], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check(values, EXPECTED)
