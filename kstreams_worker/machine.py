"""A state machine that is a table, and the one function that looks it up (the shape is h11's)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Generic, TypeVar

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)

Table = Mapping[S, Mapping[E, S]]


class IllegalEvent(Exception):
    """An event came that the state does not allow. The machine is unchanged."""

    def __init__(self, name: str, state: Enum, event: Enum) -> None:
        super().__init__(f"{name}: event {event.name} is not allowed in state {state.name}")


class Machine(Generic[S, E]):
    """A current state and its table."""

    __slots__ = ("_name", "_table", "state")

    def __init__(self, name: str, table: Table[S, E], start: S) -> None:
        self._name = name
        self._table = table
        self.state = start

    def allows(self, event: E) -> bool:
        return event in self._table[self.state]

    def fire(self, event: E) -> S:
        """Go to the next state and return it. Raises IllegalEvent and changes nothing when the table has none."""
        following = self._table[self.state].get(event)
        if following is None:
            raise IllegalEvent(self._name, self.state, event)
        self.state = following
        return following


def mermaid(table: Table[S, E]) -> str:
    """The table as a Mermaid state diagram; the pictures in ARCHITECTURE.md are made by this."""
    lines = ["stateDiagram-v2"]
    for state, events in table.items():
        following: dict[S, list[str]] = {}
        for event, target in events.items():
            following.setdefault(target, []).append(event.name.lower())
        lines += [f"    {state.name} --> {target.name}: {', '.join(names)}" for target, names in following.items()]
    return "\n".join(lines) + "\n"
