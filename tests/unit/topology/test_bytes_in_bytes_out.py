"""What is decoded, what is encoded again, and what passes as the bytes it came as."""

from __future__ import annotations

from typing import Any

from kstreams_worker import Serde, StreamsBuilder
from kstreams_worker.testing.driver import TopologyTestDriver


class Watched:
    """A serde that counts its calls; text in capitals on disk, so that a conversion shows."""

    def __init__(self, name: str = "watched") -> None:
        self.calls: list[str] = []
        self.serde = Serde(name, self.encode, self.decode)

    def encode(self, value: str) -> bytes:
        self.calls.append("encode")
        return value.upper().encode()

    def decode(self, data: bytes) -> str:
        self.calls.append("decode")
        return data.decode().lower()


def run(builder: StreamsBuilder, key: bytes | None, value: bytes | None) -> list[tuple[Any, Any]]:
    with TopologyTestDriver(builder.build()) as driver:
        driver.input_topic("in", key=bytes, value=bytes).pipe(key, value)
        return driver.output_topic("out", key=bytes, value=bytes).read_pairs()


def test_a_key_that_no_step_looks_at_is_not_decoded() -> None:
    watched = Watched()
    builder = StreamsBuilder()
    builder.stream("in", key=watched.serde, value=str).map_values(str.upper, value=str).to("out")
    assert run(builder, b"MixedCase", b"v") == [(b"MixedCase", b"V")]
    assert watched.calls == []


def test_a_key_that_a_step_looks_at_is_decoded_once_and_passes_as_it_came() -> None:
    watched = Watched()
    builder = StreamsBuilder()
    stream = builder.stream("in", key=watched.serde, value=str)
    stream.filter(lambda key, value: key == "mixedcase").filter(lambda key, value: bool(key)).to("out")
    assert run(builder, b"MixedCase", b"v") == [(b"MixedCase", b"v")]
    assert watched.calls == ["decode"]


def test_an_unchanged_value_is_written_as_it_came() -> None:
    watched = Watched()
    builder = StreamsBuilder()
    builder.stream("in", value=watched.serde).filter(lambda key, value: value == "v").to("out")
    assert run(builder, b"k", b"v") == [(b"k", b"v")]
    assert watched.calls == ["decode"]


def test_a_value_that_nobody_looks_at_is_decoded_all_the_same() -> None:
    """So that a record that nobody can read is found where it enters, not by the next application."""
    watched = Watched()
    builder = StreamsBuilder()
    builder.stream("in", value=watched.serde).to("out")
    assert run(builder, b"k", b"v") == [(b"k", b"v")]
    assert watched.calls == ["decode"]


def test_another_serde_at_the_sink_converts() -> None:
    watched = Watched()
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).to("out", key=watched.serde, value=watched.serde)
    assert run(builder, b"k", b"v") == [(b"K", b"V")]
    assert watched.calls == ["encode", "encode"]


def test_a_changed_value_is_encoded_once_for_two_sinks() -> None:
    watched = Watched()
    builder = StreamsBuilder()
    changed = builder.stream("in", key=str, value=str).map_values(lambda value: value + "!", value=watched.serde)
    changed.to("out")
    changed.to("out")
    assert run(builder, b"k", b"v") == [(b"k", b"V!"), (b"k", b"V!")]
    assert watched.calls == ["encode"]


def test_nulls_never_reach_a_serde() -> None:
    watched = Watched()
    builder = StreamsBuilder()
    stream = builder.stream("in", key=watched.serde, value=watched.serde)
    stream.map(lambda key, value: (key, value), key=watched.serde, value=watched.serde).to("out")
    assert run(builder, None, None) == [(None, None)]
    assert watched.calls == []


def test_json_stays_json_after_map_values() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value="json").map_values(lambda value: value["n"]).to("out")
    assert run(builder, b"k", b'{"n": [1, 2]}') == [(b"k", b"[1,2]")]
