"""Waiting for conditions."""

from __future__ import annotations

import time
from collections.abc import Callable

DEADLINE_S = 90.0
"""Far beyond what anything here takes, also on a machine that is busy with other things."""
_POLL_S = 0.05


def until(
    condition: Callable[[], object],
    what: str,
    *,
    deadline_s: float = DEADLINE_S,
    explain: Callable[[], str] = lambda: "",
) -> None:
    """Return once `condition()` is true. Raises AssertionError, with what `explain` says, when the deadline has passed."""
    deadline = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {deadline_s:g} s: {what}\n{explain()}")
        time.sleep(_POLL_S)
