"""Messages take their time; those between two places keep their order."""

from __future__ import annotations

from random import Random

from kstreams_worker.simulator.clock import Action, Clock


class Link:
    """The way between one process and the broker."""

    def __init__(self, clock: Clock, dice: Random, delay_ms: tuple[float, float]) -> None:
        self._clock, self._dice, self._delay_ms = clock, dice, delay_ms
        self._last_ms = 0
        self.slow_until_ms = 0
        self.slow_delay_ms = 0.0

    def send(self, action: Action) -> None:
        """Let something happen at the other end."""
        now_ms = self._clock.now_ms
        delay_ms = self._dice.uniform(*self._delay_ms)
        if now_ms < self.slow_until_ms:
            delay_ms += self.slow_delay_ms
        self._last_ms = max(self._last_ms, now_ms + round(delay_ms))
        self._clock.after(self._last_ms - now_ms, action)
