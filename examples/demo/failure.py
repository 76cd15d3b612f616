"""How the demo ends when something did not go as it should."""

from __future__ import annotations

from kstreams_worker.errors import KStreamsError


class DemoFailed(KStreamsError):
    """A step failed or took too long."""


class Interrupted(BaseException):
    """A signal asked the demo to end. Not an Exception: nothing on the way may take it for an error of its own."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number
