"""What a doctor finds: one line each, with the next step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kstreams_worker.errors import KStreamsError


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line. `next_step` is empty where there is nothing to do."""

    check: str
    level: Level
    text: str
    next_step: str = ""


def guarded(check: str, look: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """The findings of a check, and a failure if it cannot be made."""
    try:
        yield from look()
    except KStreamsError as error:
        yield Finding(check, Level.FAIL, str(error), "grant this user the right, or mend what the line says")


def judge_rights(what: str, granted: frozenset[str] | None, needed: Sequence[str]) -> Finding:
    """Whether this user may do what is needed. Nothing granted: it may not even see the thing."""
    if granted is None:
        return Finding("rights", Level.WARN, f"{what}: the brokers do not say what this user may do")
    lacking = [operation for operation in needed if operation not in granted]
    if not lacking:
        return Finding("rights", Level.OK, f"{what}: {', '.join(needed)}")
    text = f"no {', '.join(lacking)}" if granted else "this user may not see it"
    return Finding("rights", Level.FAIL, f"{what}: {text}", f"grant {', '.join(lacking)} on it to this user")
