"""Each mistake in a topology is found when it is built, and its message names the line of the call that made it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kstreams_worker import KStream, Serde, StreamsBuilder, TopologyError

HERE = Path(__file__)


def stream(builder: StreamsBuilder) -> KStream:
    return builder.stream("in", key=str, value=int)


def take_one(one: object) -> None:
    """A function of the wrong arity, wherever it is given."""


async def asynchronous(key: object, value: object) -> bool:
    return True


def duplicate_store(b: StreamsBuilder) -> None:
    stream(b).group_by_key().count(materialized="counts")
    stream(b).group_by_key().count(materialized="counts")  # here


def duplicate_added_store(b: StreamsBuilder) -> None:
    b.add_state_store("s", key=str)
    b.add_state_store("s", key=str)  # here


def store_name(b: StreamsBuilder) -> None:
    b.add_state_store("no spaces", key=str)  # here


def store_name_with_dot(b: StreamsBuilder) -> None:
    stream(b).group_by_key().count(materialized=".hidden")  # here


def unknown_store(b: StreamsBuilder) -> None:
    stream(b).process(lambda key, value, context: None, stores=["seen"])  # here
    b.build()


def unused_store(b: StreamsBuilder) -> None:
    b.add_state_store("seen", key=str)  # here
    stream(b).to("out")
    b.build()


def other_serdes(b: StreamsBuilder) -> None:
    b.stream("in", key=str, value="json").to("out")
    b.stream("in", key=str, value=str)  # here


def other_serdes_as_table(b: StreamsBuilder) -> None:
    stream(b).to("out")
    b.table("in", key=bytes, value=int)  # here


def overlapping_topics(b: StreamsBuilder) -> None:
    b.stream(["a", "b"]).to("out")
    b.stream("b")  # here


def loop(b: StreamsBuilder) -> None:
    stream(b).map_values(lambda value: value + 1, value=int).to("in")  # here
    b.build()


def loop_after_table(b: StreamsBuilder) -> None:
    counts = stream(b).group_by_key().count()
    counts.to_stream().to("in")  # here
    b.build()


def not_callable(b: StreamsBuilder) -> None:
    stream(b).filter("positive")  # type: ignore[arg-type] # here


def wrong_arity(b: StreamsBuilder) -> None:
    stream(b).filter(lambda value: value > 0)  # type: ignore[arg-type,misc] # here


def wrong_arity_of_mapper(b: StreamsBuilder) -> None:
    stream(b).map_values(lambda: 0)  # here


def wrong_arity_of_aggregator(b: StreamsBuilder) -> None:
    stream(b).group_by_key().aggregate(int, take_one, value=int)  # type: ignore[arg-type] # here


def wrong_arity_of_initializer(b: StreamsBuilder) -> None:
    stream(b).group_by_key().aggregate(take_one, lambda k, v, a: a, value=int)  # type: ignore[arg-type] # here


def wrong_arity_of_processor(b: StreamsBuilder) -> None:
    stream(b).process(lambda key, value: None)  # type: ignore[arg-type,misc] # here


def coroutine(b: StreamsBuilder) -> None:
    stream(b).filter(asynchronous)  # here


def group_by_without_serde(b: StreamsBuilder) -> None:
    stream(b).group_by(lambda key, value: value)  # here


def group_by_key_after_select_key(b: StreamsBuilder) -> None:
    stream(b).select_key(lambda key, value: value).group_by_key()  # here


def group_by_after_unknown_value(b: StreamsBuilder) -> None:
    stream(b).map_values(str).group_by(lambda key, value: value, key=str).count()  # here


def table_group_by_without_serde(b: StreamsBuilder) -> None:
    b.table("in", key=str, value=int).group_by(lambda key, value: (value, key))  # here


def empty(b: StreamsBuilder) -> None:
    b.build()  # here


def source_without_steps(b: StreamsBuilder) -> None:
    stream(b)
    b.build()


def missing_sink_serde(b: StreamsBuilder) -> None:
    stream(b).map_values(str).to("out")  # here


def missing_key_serde(b: StreamsBuilder) -> None:
    stream(b).select_key(lambda key, value: value).to("out")  # here


def missing_aggregate_serde(b: StreamsBuilder) -> None:
    stream(b).group_by_key().aggregate(list, lambda k, v, a: a)  # here


def merge_of_serdes(b: StreamsBuilder) -> None:
    stream(b).merge(b.stream("other", key=str, value=str))  # here


def merge_of_builders(b: StreamsBuilder) -> None:
    stream(b).merge(stream(StreamsBuilder()))  # here


def merge_of_something(b: StreamsBuilder) -> None:
    stream(b).merge(b.table("t"))  # type: ignore[arg-type] # here


def topic_name(b: StreamsBuilder) -> None:
    stream(b).to("no spaces")  # here


def topic_name_of_source(b: StreamsBuilder) -> None:
    b.stream("")  # here


def no_topics(b: StreamsBuilder) -> None:
    b.stream([])  # here


def no_serde(b: StreamsBuilder) -> None:
    b.stream("in", value=dict)  # here


def duplicate_step_name(b: StreamsBuilder) -> None:
    stream(b).peek(print, name="x").filter(lambda key, value: True, name="x")  # here


def duplicate_repartition_name(b: StreamsBuilder) -> None:
    stream(b).repartition(name="r").to("out")
    stream(b).repartition(name="r")  # here


def no_partitions(b: StreamsBuilder) -> None:
    stream(b).repartition(partitions=0)  # here


def split_of_nothing(b: StreamsBuilder) -> None:
    stream(b).split({})  # here


def split_with_a_double_name(b: StreamsBuilder) -> None:
    stream(b).split({"x": lambda key, value: True}, default="x")  # here


def added_after_build(b: StreamsBuilder) -> None:
    source = stream(b)
    source.to("out")
    b.build()
    source.to("late")  # here


MESSAGES: dict[Callable[[StreamsBuilder], None], str] = {
    duplicate_store: r"the store 'counts' already exists, made at tests/.*; store names are unique",
    duplicate_added_store: r"the store 's' already exists",
    store_name: r"'no spaces' cannot name a store",
    store_name_with_dot: r"store name '.hidden'",
    unknown_store: r"process\(\) uses the store 'seen', which does not exist \(known: none\); add it: builder.add_state_",
    unused_store: r"no process\(\) uses the store 'seen'",
    other_serdes: r"topic 'in' is already read at .* with key=str, value=json; here with key=str, value=str",
    other_serdes_as_table: r"topic 'in' is already read at .* with key=str, value=int; here with key=bytes, value=int",
    overlapping_topics: r"topic 'b' is already read at .* together with other topics",
    loop: r"to\('in'\) writes to a topic that the same sub-topology reads",
    loop_after_table: r"to\('in'\) writes to a topic that the same sub-topology reads",
    not_callable: r"filter\(\) needs a function, got 'positive'",
    wrong_arity: r"filter\(\) calls its function with 2 arguments, but it is wrong_arity.<locals>.<lambda>\(value\)",
    wrong_arity_of_mapper: r"map_values\(\) calls its function with 1 argument, but it is .*<lambda>\(\)",
    wrong_arity_of_aggregator: r"aggregate\(\)'s aggregator calls its function with 3 arguments, but it is take_one\(one",
    wrong_arity_of_initializer: r"aggregate\(\)'s initializer calls its function with 0 arguments",
    wrong_arity_of_processor: r"process\(\) calls its function with 3 arguments",
    coroutine: r"filter\(\) needs a plain function, asynchronous is a coroutine function",
    group_by_without_serde: r"group_by\(\) must know how to write the key, .* changed; name it: key=...",
    group_by_key_after_select_key: r"group_by_key\(\) must know how to write the key, which select_key\(\) at .* changed",
    group_by_after_unknown_value: r"count\(\) must know how to write the value, which map_values\(\) at .* changed",
    table_group_by_without_serde: r"group_by\(\) must know how to write the key",
    empty: r"the topology is empty: nothing reads a topic",
    source_without_steps: r"nothing is done with the records of in",
    missing_sink_serde: r"to\('out'\) must know how to write the value, which map_values\(\) at tests/.* changed",
    missing_key_serde: r"to\('out'\) must know how to write the key, which select_key\(\) at tests/.* changed",
    missing_aggregate_serde: r"aggregate\(\) must know how to write the value",
    merge_of_serdes: r"merge\(\) of streams with different value serdes: int and str",
    merge_of_builders: r"merge\(\) got a stream of another StreamsBuilder",
    merge_of_something: r"merge\(\) takes a KStream, got KTable",
    topic_name: r"'no spaces' is not a topic name",
    topic_name_of_source: r"'' is not a topic name",
    no_topics: r"stream\(\) needs at least one topic",
    no_serde: r"<class 'dict'> is not a serde; give bytes, str, int, float, 'json' or a kstreams_worker.Serde",
    duplicate_step_name: r"the name 'x' is taken by the step at tests/.*; names are unique",
    duplicate_repartition_name: r"the repartition topic 'r' already exists, made at tests/",
    no_partitions: r"repartition\(\) needs at least one partition, got 0",
    split_of_nothing: r"split\(\) needs at least one branch",
    split_with_a_double_name: r"split\(\) needs at least one branch, and a default by another name",
    added_after_build: r"the topology was already built, at tests/",
}


def line_of(mistake: Callable[[StreamsBuilder], None]) -> int:
    """The line marked `here`; without a mark the one in stream(), which all of them call."""
    for function in (mistake, stream):
        lines, first = inspect.getsourcelines(function)
        for number, line in enumerate(lines, start=first):
            if "# here" in line or (function is stream and "builder.stream(" in line):
                return number
    raise AssertionError


@pytest.mark.parametrize("mistake", MESSAGES, ids=lambda mistake: mistake.__name__)
def test_a_mistake_is_named_with_its_line(
    mistake: Callable[[StreamsBuilder], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(HERE.parents[3])
    with pytest.raises(TopologyError) as caught:
        mistake(StreamsBuilder())
    location = f"tests/unit/topology/{HERE.name}:{line_of(mistake)}"
    assert caught.value.location == location
    assert re.match(f"{re.escape(location)}: {MESSAGES[mistake]}", str(caught.value))
    assert caught.value.exit_code == 2


def test_a_file_elsewhere_is_named_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TopologyError) as caught:
        StreamsBuilder().build()
    assert str(caught.value).startswith(f"{HERE}:")


def test_functions_whose_signature_is_unknown_are_taken() -> None:
    builder = StreamsBuilder()
    stream(builder).map_values(str, value=str).to("out")
    stream(builder).map_values(abs, value=int).to("out")
    assert len(builder.build().subtopologies) == 1


def test_a_serde_of_ones_own_is_taken() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=Serde("mine", str.encode, bytes.decode)).to("out")
    assert builder.build().source_topics == ("in",)
