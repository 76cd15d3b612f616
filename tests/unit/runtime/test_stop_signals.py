"""What SIGTERM means to a worker."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import Any

import pytest

from kstreams_worker.runtime import worker as worker_module
from kstreams_worker.runtime.worker import StopSignals


class Told:
    """A worker's parts, as far as a signal reaches them."""

    def __init__(self, on_sigterm: str) -> None:
        self.heard: list[str] = []
        self.settings = SimpleNamespace(on_sigterm=on_sigterm)
        self.loop = SimpleNamespace(stop=lambda: self.heard.append("close"))

    def hand_over(self) -> None:
        self.heard.append("hand over")


def after(signals: int, on_sigterm: str) -> list[str]:
    told: Any = Told(on_sigterm)
    handler = StopSignals(told)
    for _ in range(signals):
        handler(signal.SIGTERM, None)
    heard: list[str] = told.heard
    return heard


def test_close_closes() -> None:
    assert after(1, "close") == ["close"]


def test_the_same_request_twice_is_one() -> None:
    """A service manager signals the whole process group, and the supervisor passes its own signal on."""
    assert after(2, "handover") == ["hand over"]


def test_a_second_request_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "SAME_REQUEST_SECONDS", 0.0)
    assert after(2, "handover") == ["hand over", "close"]
