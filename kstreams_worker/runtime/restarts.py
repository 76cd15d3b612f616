"""When to start a worker again that ended by itself: at once, then later and later, then never. Pure; reads no clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """The limits of restarting."""

    first_delay_seconds: float = 0.5
    """Delay of the second restart; the first, after a stable run, is at once. It doubles from then on."""
    delay_seconds_max: float = 30.0
    stable_seconds: float = 60.0
    """A worker that ran for so long has got over its earlier failures."""
    restarts_max: int = 10
    """Restarts in a row. With the delays above that is about three minutes: what lasts longer needs a person, and the
    container platform shows an instance that ended better than one that restarts for ever."""


class RestartSchedule:
    """The failures in a row of one worker."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self.failures = 0

    def next_delay_seconds(self, ran_seconds: float) -> float | None:
        """Note that the worker ended after so long; how long to wait before starting it again, None to give up."""
        policy = self._policy
        self.failures = 1 if ran_seconds >= policy.stable_seconds else self.failures + 1
        if self.failures > policy.restarts_max:
            return None
        if self.failures == 1:
            return 0.0
        return min(policy.delay_seconds_max, policy.first_delay_seconds * 2.0 ** (self.failures - 2))
