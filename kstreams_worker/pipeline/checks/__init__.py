"""The checks that `verify` knows by name. `register` adds one for a topology of one's own."""

from __future__ import annotations

from kstreams_worker.errors import UsageError
from kstreams_worker.pipeline.checks.count import COUNT
from kstreams_worker.pipeline.checks.model import Check, OutputCheck, Parameters
from kstreams_worker.pipeline.checks.orders import ORDERS

__all__ = ["Check", "OutputCheck", "Parameters", "check_named", "register"]

_REGISTRY = {check.name: check for check in (ORDERS, COUNT)}


def register(check: Check) -> Check:
    """Make a check known by its name; a later one of the same name takes its place."""
    _REGISTRY[check.name] = check
    return check


def check_named(name: str) -> Check:
    """Raises UsageError if there is none."""
    if name not in _REGISTRY:
        raise UsageError(f"there is no check {name!r}, only {', '.join(sorted(_REGISTRY))}")
    return _REGISTRY[name]
