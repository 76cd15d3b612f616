"""Generated code in the making: lines with the step they serve, and what is known of the record at a point in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from kstreams_worker.topology.nodes import Node
from kstreams_worker.topology.serdes import Serde


@dataclass(frozen=True, slots=True)
class Line:
    level: int
    text: str
    step: Node | None


@dataclass(slots=True)
class Slot:
    """A variable of the generated code. `used` tells a loop's or function's head which of those it offers to provide."""

    name: str
    used: bool = False


@dataclass(slots=True)
class Row:
    """What the generated code holds of the record at one point.

    Facts are learned on the way (an encoded key is kept for the next step that wants it) and hold for the rest of the
    block they were learned in; a nested block works on a copy.
    """

    key: Slot | None
    """The decoded key, once there is one."""
    key_serde: Serde | None
    """By which `raw_keys` can be decoded; None where the key came from a function."""
    raw_keys: dict[str, Slot]
    """Encoded keys, by serde name."""
    value: Slot
    raw_values: dict[str, Slot]
    time: Slot
    old: Slot | None = None
    """In a table whose steps keep old values: the value replaced."""
    key_may_be_null: bool = True
    value_may_be_null: bool = True

    def copy(self) -> Row:
        return replace(self, raw_keys=dict(self.raw_keys), raw_values=dict(self.raw_values))

    def with_key(self, name: str) -> Row:
        """The record under a new key, made by a function."""
        return replace(
            self, key=Slot(name), key_serde=None, raw_keys={}, raw_values=dict(self.raw_values), key_may_be_null=True
        )

    def with_value(self, name: str, *, may_be_null: bool = True) -> Row:
        """The record with a new value, made by a function."""
        return replace(
            self, raw_keys=dict(self.raw_keys), value=Slot(name), raw_values={}, value_may_be_null=may_be_null
        )


@dataclass(slots=True)
class Block:
    """Lines being written, and how deep the next one stands."""

    level: int
    lines: list[Line] = field(default_factory=list)


class Code:
    """Writes lines. `step` is the node whose code is being written."""

    def __init__(self) -> None:
        self.step: Node | None = None
        self._block = Block(0)
        self._next_name = 0

    @property
    def level(self) -> int:
        return self._block.level

    def line(self, text: str) -> None:
        self._block.lines.append(Line(self._block.level, text, self.step))

    def lines(self, lines: list[Line]) -> None:
        self._block.lines += lines

    @contextmanager
    def nested(self, head: str) -> Iterator[None]:
        """A block under `head`, one level deeper; `pass` if nothing is written in it."""
        self.line(head)
        self._block.level += 1
        count = len(self._block.lines)
        step = self.step
        yield
        self.step = step
        if len(self._block.lines) == count:
            self.line("pass")
        self._block.level -= 1

    @contextmanager
    def apart(self, level: int) -> Iterator[list[Line]]:
        """Lines written to a list of their own, to be placed once it is known what they use."""
        outer, step = self._block, self.step
        self._block = Block(level)
        yield self._block.lines
        self._block, self.step = outer, step

    def fresh(self, name: str) -> str:
        """A variable name that nothing else uses."""
        self._next_name += 1
        return f"{name}_{self._next_name}"

    @staticmethod
    def use(slot: Slot) -> str:
        slot.used = True
        return slot.name
