"""What a verification found, for people (a table) and for scripts (JSON). Knows nothing of Spark."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, Literal

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

Guarantee = Literal["exactly_once_v2", "at_least_once"]

# A record in a table is cut here; JSON has all of it.
_SHOWN_CHARACTERS_MAX = 120


class Comparison(Enum):
    """How an output is compared with what it should be."""

    MULTISET = "multiset"
    """Each expected record exactly once, in any order; counts are of records."""
    LAST_VALUE_PER_KEY = "last_value_per_key"
    """Each key's last value; counts are of keys, but `doubled` is of updates that went back or stood still."""


class Fault(Enum):
    """What can be wrong with an output."""

    MISSING = "missing"
    EXTRA = "extra"
    DOUBLED = "doubled"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record stands."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.offset}"


@dataclass(frozen=True, slots=True)
class Example:
    """One record with a fault. `place` is that of the output record; of a missing one, its input's where that is known."""

    fault: Fault
    key: str | None
    expected: str | None
    actual: str | None
    place: Place | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class OutputReport:
    """One output topic. `expected` and `actual` count records (multiset) or keys (last value per key)."""

    topic: str
    comparison: Comparison
    expected: int
    actual: int
    records: int
    missing: int
    extra: int
    doubled: int
    wrong: int
    examples: tuple[Example, ...] = ()

    def count(self, fault: Fault) -> int:
        """How many have this fault."""
        return int(getattr(self, fault.value))

    def is_ok(self, guarantee: Guarantee) -> bool:
        """Whether `guarantee` allows what was found: at_least_once tolerates doubles, and nothing else."""
        doubles_allowed = guarantee == "at_least_once"
        return not (self.missing or self.extra or self.wrong or (self.doubled and not doubles_allowed))


@dataclass(frozen=True, slots=True)
class Report:
    """All outputs of a check. `input_unreadable` records have no expected output and are left out."""

    check: str
    guarantee: Guarantee
    input_topic: str
    input_records: int
    input_unreadable: int
    outputs: tuple[OutputReport, ...]
    elapsed_s: float

    @property
    def ok(self) -> bool:
        """Whether every output is what its input demands."""
        return all(output.is_ok(self.guarantee) for output in self.outputs)

    def output(self, topic: str) -> OutputReport:
        """The report on one output topic. Raises KeyError."""
        for output in self.outputs:
            if output.topic == topic:
                return output
        raise KeyError(topic)

    def to_json(self) -> str:
        """One line of JSON with everything."""
        return json.dumps({"ok": self.ok, **asdict(self)}, default=_plain)

    def __rich__(self) -> RenderableType:
        return Group(self._counts(), *self._examples(), self._verdict())

    def _counts(self) -> Table:
        table = _table(f"check {self.check}, {self.guarantee}, input {self.input_topic}")
        table.add_column("output", overflow="fold", min_width=12)
        table.add_column("of")
        for name in ("expected", "actual", *(fault.value for fault in Fault)):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("")
        for output in self.outputs:
            numbers = (output.expected, output.actual, *(output.count(fault) for fault in Fault))
            ok = output.is_ok(self.guarantee)
            mark = Text("equal" if ok else "different", style="green" if ok else "bold red")
            counted = "records" if output.comparison is Comparison.MULTISET else "keys"
            table.add_row(output.topic, counted, *(f"{number:,}" for number in numbers), mark)
        return table

    def _examples(self) -> list[RenderableType]:
        shown = [(output.topic, example) for output in self.outputs for example in output.examples]
        if not shown:
            return []
        table = _table("examples")
        for name in ("output", "fault", "key", "expected", "actual", "where"):
            table.add_column(name, overflow="fold")
        for topic, example in shown:
            where = "\n".join(part for part in (str(example.place or ""), example.note) if part)
            table.add_row(
                topic,
                example.fault.value,
                *(_cut(text) for text in (example.key, example.expected, example.actual)),
                where,
            )
        return [table]

    def _verdict(self) -> Text:
        read = f"{self.input_records:,} input records read"
        if self.input_unreadable:
            read += f", {self.input_unreadable:,} of them unreadable and left out"
        equal = (
            "the outputs are what the input demands" if self.ok else "the outputs differ from what the input demands"
        )
        return Text(f"{equal} ({read}, {self.elapsed_s:.1f} s)", style="green" if self.ok else "bold red")


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))


def _cut(text: str | None) -> Text:
    if text is None:
        return Text("-", style="dim")
    return Text(text if len(text) <= _SHOWN_CHARACTERS_MAX else text[: _SHOWN_CHARACTERS_MAX - 1] + "…")


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    raise TypeError(f"{value!r} has no form in JSON")
