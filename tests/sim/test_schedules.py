"""Random histories of a group: nothing forbidden happens at any moment, and once the faults stop the group comes to rest."""

from __future__ import annotations

import pytest
from sim.campaign import play_all
from sim.schedule import play

SCHEDULES = 2_000


@pytest.mark.timeout(600)
def test_two_thousand_schedules() -> None:
    """Workers and hosts start, crash, stand still, are slow, leave and stay; leaders die in mid-round; memory is lost."""
    broken = [outcome for outcome in play_all(range(SCHEDULES)) if outcome.broken]
    assert not broken, "\n".join(map(str, broken[:5]))


def test_a_history_is_a_function_of_its_seed() -> None:
    """A failure can be played again: the same seed gives the same history, and another seed another one."""
    assert len({play(17).fingerprint for _ in range(3)}) == 1
    assert play(17).fingerprint != play(18).fingerprint


def test_a_history_is_the_same_in_another_process() -> None:
    """Nothing hangs on the order of sets, which differs from process to process."""
    elsewhere = {outcome.seed: outcome.fingerprint for outcome in play_all(range(6), processes=1)}
    assert elsewhere == {seed: play(seed).fingerprint for seed in range(6)}
