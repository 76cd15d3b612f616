"""Random histories of a group: in every round nothing forbidden happens, and once the events stop the group comes to rest."""

from __future__ import annotations

import os

import pytest
from sim.group_model import Group, events, random_group

SEEDS = int(os.environ.get("SIM_SEEDS", "150"))
FIRST_SEED = int(os.environ.get("SIM_FIRST_SEED", "0"))
ROUNDS_MAX = 120
"""Far above what is needed (see `test_rest_comes_soon`): a group that shuffles for ever is what this is to find."""


def play(seed: int, steps: int = 25) -> Group:
    """A whole history. A failure names the seed and what happened up to then."""
    group = random_group(seed)
    history: list[str] = []
    try:
        history.extend(events(group, steps))
        if not group.members:
            group.start_machine(1, 1)
        rounds = group.settle(ROUNDS_MAX)
    except AssertionError as failure:
        replay = f"SIM_FIRST_SEED={seed} SIM_SEEDS=1 python -m pytest tests/sim/test_random_rounds.py"
        raise AssertionError(f"seed {seed} after {' '.join(history)}: {failure}\nreplay: {replay}") from failure
    group.rounds = rounds  # type: ignore[attr-defined]
    return group


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_nothing_forbidden_happens_and_the_group_comes_to_rest(seed: int) -> None:
    play(seed)
