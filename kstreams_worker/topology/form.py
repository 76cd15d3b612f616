"""What the DSL knows of a stream's keys or values: their serde, or the step after which it is no longer known."""

from __future__ import annotations

from dataclasses import dataclass

from kstreams_worker.errors import TopologyError
from kstreams_worker.topology.serdes import Serde, SerdeLike, serde_of


@dataclass(frozen=True, slots=True)
class Form:
    """`serde` None: unknown since `changed_by`, a step such as "select_key() at orders.py:12"."""

    serde: Serde | None
    changed_by: str | None = None

    def changed(self, given: SerdeLike | None, step: str, location: str) -> Form:
        """After a step that makes new values: the serde it was given, else unknown, except that JSON holds anything."""
        by = f"{step} at {location}"
        if given is not None:
            return Form(serde_of(given, location), by)
        return Form(self.serde if self.serde and self.serde.holds_anything else None, by)

    def forgotten(self, given: SerdeLike | None, step: str, location: str) -> Form:
        """After a step that makes new keys: the serde it was given, else unknown. A key's bytes are too weighty to guess:
        they choose the partition."""
        return Form(serde_of(given, location) if given is not None else None, f"{step} at {location}")

    def named(self, given: SerdeLike | None, location: str) -> Form:
        """With the serde a user named for this step, if any."""
        return self if given is None else Form(serde_of(given, location), self.changed_by)

    def needed(self, what: str, step: str, location: str) -> Serde:
        """The serde, or TopologyError saying which call lost it and how to name it. `what` is "key" or "value"."""
        if self.serde is None:
            raise TopologyError(
                f"{step} must know how to write the {what}, which {self.changed_by} changed; name it: {what}=...",
                location,
            )
        return self.serde


@dataclass(frozen=True, slots=True)
class Materialized:
    """How a step keeps its table: the store's `name` (None: a numbered one).

    `logged` False: no changelog topic; the store is lost with its machine. `cached` False: every update goes downstream
    at once, whatever `cache.max.bytes` says.
    """

    name: str | None = None
    logged: bool = True
    cached: bool = True

    @staticmethod
    def of(given: str | Materialized | None) -> Materialized:
        return given if isinstance(given, Materialized) else Materialized(given)
