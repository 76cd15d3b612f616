"""Random chains of steps: the compiled code gives what a plain interpreter of the same steps gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_worker import KStream, StreamsBuilder
from kstreams_worker.testing.driver import TopologyTestDriver

Record = tuple[str | None, int | None, int]


@dataclass(frozen=True)
class Step:
    """A step twice: as a call of the DSL, and as what it does to one record."""

    name: str
    call: Callable[[KStream], KStream]
    meaning: Callable[[Any, Any], list[tuple[Any, Any]]]


def number(value: int | None) -> int:
    return -1 if value is None else value


def text(key: str | None) -> str:
    return "" if key is None else key


def odd(key: Any, value: Any) -> bool:
    return number(value) % 2 == 1


def swapped(key: Any, value: Any) -> tuple[Any, Any]:
    return (None if number(value) % 5 == 0 else f"k{number(value) % 3}"), len(text(key))


def fan_out(key: Any, value: Any) -> list[tuple[Any, Any]]:
    return [(text(key) + str(copy), value) for copy in range(number(value) % 3)]


def counted_down(key: Any, value: Any) -> list[Any]:
    return [None if copy == 2 else copy for copy in range(number(value) % 4)]


def first_letter(key: Any, value: Any) -> Any:
    return text(key)[:1] or None


STEPS = [
    Step("filter", lambda s: s.filter(odd), lambda k, v: [(k, v)] if odd(k, v) else []),
    Step("filter_not", lambda s: s.filter_not(odd), lambda k, v: [] if odd(k, v) else [(k, v)]),
    Step("by key", lambda s: s.filter(lambda k, v: k != "a"), lambda k, v: [(k, v)] if k != "a" else []),
    Step("map", lambda s: s.map(swapped, key=str, value=int), lambda k, v: [swapped(k, v)]),
    Step("map_values", lambda s: s.map_values(lambda v: number(v) + 1, value=int), lambda k, v: [(k, number(v) + 1)]),
    Step(
        "map_values with key",
        lambda s: s.map_values(lambda k, v: None if k == "a" else number(v), value=int),
        lambda k, v: [(k, None if k == "a" else number(v))],
    ),
    Step("flat_map", lambda s: s.flat_map(fan_out, key=str, value=int), fan_out),
    Step(
        "flat_map_values",
        lambda s: s.flat_map_values(counted_down, value=int),
        lambda k, v: [(k, new) for new in counted_down(k, v)],
    ),
    Step("select_key", lambda s: s.select_key(first_letter, key=str), lambda k, v: [(first_letter(k, v), v)]),
    Step("peek", lambda s: s.peek(odd), lambda k, v: [(k, v)]),
    Step("split", lambda s: s.split({"odd": odd}, default="rest")["rest"], lambda k, v: [] if odd(k, v) else [(k, v)]),
    Step(
        "process",
        lambda s: s.process(lambda k, v, context: context.forward(k, v), key=str, value=int),
        lambda k, v: [(k, v)],
    ),
]


@dataclass(frozen=True)
class Fork:
    """The stream goes two ways, which are merged again."""

    left: list[Any]
    right: list[Any]


Chain = list[Any]


def chains(depth: int) -> st.SearchStrategy[Chain]:
    steps: st.SearchStrategy[Any] = st.sampled_from(STEPS)
    if depth:
        arm = chains(depth - 1).filter(bool)
        steps = st.one_of(steps, steps, st.builds(Fork, arm, arm))
    return st.lists(steps, max_size=6)


def apply(stream: KStream, chain: Chain) -> KStream:
    for step in chain:
        stream = (
            apply(stream, step.left).merge(apply(stream, step.right)) if isinstance(step, Fork) else step.call(stream)
        )
    return stream


def interpret(key: Any, value: Any, chain: Chain) -> Iterator[tuple[Any, Any]]:
    if not chain:
        yield key, value
        return
    step, *rest = chain
    if isinstance(step, Fork):
        for arm in (step.left, step.right):
            yield from interpret(key, value, [*arm, *rest])
        return
    for new_key, new_value in step.meaning(key, value):
        yield from interpret(new_key, new_value, rest)


records = st.lists(
    st.tuples(
        st.one_of(st.none(), st.sampled_from(["a", "b", "cd"])),
        st.one_of(st.none(), st.integers(0, 20)),
        st.integers(0, 100),
    ),
    max_size=12,
)


def passed(chain: Chain, incoming: list[Record]) -> list[Record]:
    return [(*pair, time) for key, value, time in incoming for pair in interpret(key, value, chain)]


@settings(max_examples=150, deadline=None)
@given(chain=chains(2), incoming=records, whole=st.booleans())
def test_stateless_chains(chain: Chain, incoming: list[Record], whole: bool) -> None:
    builder = StreamsBuilder()
    apply(builder.stream("in", key=str, value=int), chain).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        for batch in [incoming] if whole else [[record] for record in incoming]:
            driver.input_topic("in").pipe_batch(batch)
        found = driver.output_topic("out").read_all()
    assert [(record.key, record.value, record.timestamp_ms) for record in found] == passed(chain, incoming)


@settings(max_examples=150, deadline=None)
@given(before=chains(1), after=chains(1), incoming=records, cached=st.booleans(), commits=st.sets(st.integers(0, 11)))
def test_chains_around_an_aggregation(
    before: Chain, after: Chain, incoming: list[Record], cached: bool, commits: set[int]
) -> None:
    """Through a repartition topic where the key changed; forwarded at once, or the newest at each commit."""
    builder = StreamsBuilder()
    grouped = apply(builder.stream("in", key=str, value=int), before).group_by_key()
    table = grouped.aggregate(lambda: 0, lambda key, value, total: total + value, value=int, materialized="totals")
    apply(table.to_stream(), after).to("out")

    totals: dict[Any, tuple[int, int]] = {}
    dirty: dict[Any, None] = {}
    expected: list[Record] = []

    def forward(key: Any) -> None:
        expected.extend(passed(after, [(key, *totals[key])]))

    with TopologyTestDriver(builder.build(), cached=cached, application_id="random") as driver:
        for index, record in enumerate(incoming):
            driver.input_topic("in").pipe_batch([record])
            for key, value, time in passed(before, [record]):
                if key is None or value is None:
                    continue
                total, latest = totals.get(key, (0, -1))
                totals[key] = total + value, max(latest, time)
                dirty[key] = None
                if not cached:
                    forward(key)
            if index in commits:
                driver.commit()
                if cached:
                    for key in dirty:
                        forward(key)
                dirty.clear()
        found = [(record.key, record.value, record.timestamp_ms) for record in driver.output_topic("out").read_all()]
        kept = {key: driver.store("totals").get_with_timestamp(key) for key in totals}
    assert kept == totals
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    if not cached:
        assert found == expected


rows = st.lists(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.tuples(st.sampled_from("xyz"), st.integers(0, 9)))),
        max_size=5,
    ),
    max_size=5,
)


@settings(max_examples=100, deadline=None)
@given(batches=rows, cached=st.booleans(), commits=st.booleans())
def test_groups_of_a_table(batches: list[list[Any]], cached: bool, commits: bool) -> None:
    """After any changes of rows, each group's sum is that of the rows that are left."""
    builder = StreamsBuilder()
    table = builder.table("in", key=str, value="json").filter(lambda key, row: row[1] != 5)
    groups = table.group_by(lambda key, row: (row[0], row[1]), key=str, value=int)
    sums = groups.reduce(lambda total, value: total + value, lambda total, value: total - value)
    sums.to_stream().to("out")
    left: dict[str, tuple[str, int]] = {}
    latest: dict[str, int] = {}
    with TopologyTestDriver(builder.build(), cached=cached) as driver:
        for batch in batches:
            driver.input_topic("in").pipe_batch(batch)
            for key, row in batch:
                left.pop(key, None)
                if row is not None and row[1] != 5:
                    left[key] = row
            if commits:
                driver.commit()
                latest |= driver.output_topic("out").read_latest()
        driver.commit()
        latest |= driver.output_topic("out").read_latest()
    expected = dict.fromkeys(latest, 0)
    for group, value in left.values():
        expected[group] += value
    assert latest == expected
