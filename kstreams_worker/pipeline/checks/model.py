"""What a check is: what the outputs of a topology must hold, stated in Spark.

A check names an input topic and, for each output topic, a function from the input to the expected records and a way to
compare them; `verify` does the rest. Values are compared in a canonical form, a string: each output says how its raw
values are read into that form.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from kstreams_worker.errors import UsageError
from kstreams_worker.pipeline.report import Comparison

Parameters = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class OutputCheck:
    """One output topic.

    `expected(input, parameters)` makes the columns key (binary) and value (canonical string); for MULTISET also partition
    and offset, of the input record that each comes from; for LAST_VALUE_PER_KEY each key once.
    `decode(value, parameters)` reads a raw value (binary) into the canonical form, null if it cannot.
    """

    name: str
    """What the topic is called unless the caller says otherwise."""
    comparison: Comparison
    expected: Callable[[DataFrame, Parameters], DataFrame]
    decode: Callable[[Column, Parameters], Column]
    identity: Callable[[Column], Column] | None = None
    """MULTISET: what makes a canonical value the same record (to tell doubled and wrong from extra and missing)."""
    progress: Callable[[Column], Column] | None = None
    """LAST_VALUE_PER_KEY: a bigint in a canonical value that grows with each update of a key, under exactly-once."""


@dataclass(frozen=True, slots=True)
class Check:
    """One topology. `read(input, parameters)` adds the columns that `expected` needs, and a boolean `readable`."""

    name: str
    description: str
    input_topic: str
    read: Callable[[DataFrame, Parameters], DataFrame]
    outputs: tuple[OutputCheck, ...]
    parameters: Parameters = field(default_factory=dict)
    """Names and defaults."""

    def with_defaults(self, given: Parameters) -> dict[str, str]:
        """All parameters. Raises UsageError for an unknown one."""
        _refuse_unknown(f"check {self.name} has no parameter", given, self.parameters)
        return {**self.parameters, **given}

    def topics(self, given: Mapping[str, str]) -> dict[str, str]:
        """The topic of the input and of each output, by its name in the check. Raises UsageError for an unknown name."""
        names = [self.input_topic, *(output.name for output in self.outputs)]
        _refuse_unknown(f"check {self.name} has no topic", given, names)
        return {name: given.get(name, name) for name in names}


def canonical_json(text: Column) -> Column:
    """JSON without spaces and with sorted names, so that equal documents are equal strings; null if it is not JSON."""
    return fn.to_json(fn.try_parse_json(text))


def fields_of_json(text: Column, schema: str) -> Column:
    """Some fields of a JSON object, in the order of `schema` (Spark's DDL); null if one is missing or of another type."""
    fields = fn.from_json(text, schema)
    names = [field.split()[0] for field in schema.split(",")]
    complete = fn.lit(True)
    for name in names:
        complete = complete & fields.getField(name).isNotNull()
    return fn.when(complete, fn.to_json(fields))


def _refuse_unknown(what: str, given: Iterable[str], known: Collection[str]) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise UsageError(f"{what} {unknown[0]!r}, only {', '.join(known) or 'none at all'}")
