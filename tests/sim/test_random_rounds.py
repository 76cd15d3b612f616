"""Random histories of a group: in every round nothing forbidden happens, and once the events stop the group comes to rest."""

from __future__ import annotations

import os

import pytest
from sim.group_model import events, random_group

SEEDS = int(os.environ.get("SIM_SEEDS", "120"))
FIRST_SEED = int(os.environ.get("SIM_FIRST_SEED", "0"))
ROUNDS_MAX = 20
"""Twice what the slowest of some thousand histories took: a group that shuffles for ever is what this is to find."""


def play(seed: int, steps: int = 25) -> int:
    """A whole history; returns the rounds until rest. A failure names the seed and what happened up to then."""
    group = random_group(seed)
    history: list[str] = []
    try:
        history.extend(events(group, steps))
        if not group.members:
            group.start_machine(1, 1)
        return group.settle(ROUNDS_MAX)
    except AssertionError as failure:
        replay = f"SIM_FIRST_SEED={seed} SIM_SEEDS=1 python -m pytest tests/sim/test_random_rounds.py"
        raise AssertionError(f"seed {seed} after {' '.join(history)}: {failure}\nreplay: {replay}") from failure


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_nothing_forbidden_happens_and_the_group_comes_to_rest(seed: int) -> None:
    """Workers start, crash, restart, leave and stay, leaders forget, settings and partitions change."""
    play(seed)


def test_a_history_is_a_function_of_its_seed() -> None:
    """A failure can be played again: the same seed gives the same history."""
    groups = [random_group(17), random_group(17)]
    histories = [list(events(group, 30)) for group in groups]
    assert histories[0] == histories[1]
    assert groups[0].snapshot() == groups[1].snapshot()
