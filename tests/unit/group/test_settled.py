"""Waiting for the end of a round: until then the broker shows no metadata."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kstreams_worker.errors import GroupError
from kstreams_worker.group.client import GroupClient
from kstreams_worker.group.events import GroupDescription


class Described(GroupClient):
    """Answers with these states, one after the other."""

    def __init__(self, states: Iterator[str]) -> None:
        self._states = states

    def describe(self, group_id: str) -> GroupDescription:
        return GroupDescription(group_id, next(self._states), "stream", ())


def test_the_first_answer_between_rounds_counts() -> None:
    states = iter(["PreparingRebalance", "CompletingRebalance", "Stable", "never asked for"])
    assert Described(states).describe_settled("app").state == "Stable"
    assert next(states) == "never asked for"


def test_a_round_that_does_not_end_is_an_error_that_says_what_to_do() -> None:
    states = iter(["PreparingRebalance"] * 1000)
    with pytest.raises(GroupError, match=r"group app is in the middle of a round .* ask again when it has ended"):
        Described(states).describe_settled("app", timeout_s=0.01)
