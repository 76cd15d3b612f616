"""The serdes write what Kafka's own serializers write, and refuse what is not theirs."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from kstreams_worker import Serde, TopologyError, serdes
from kstreams_worker.topology.serdes import REFUSE_NULLS, changes_of, serde_of


@pytest.mark.parametrize(
    ("serde", "value", "data"),
    [
        (serdes.raw, b"\x00\xff", b"\x00\xff"),
        (serdes.string, "é", b"\xc3\xa9"),
        (serdes.long, 1, b"\x00\x00\x00\x00\x00\x00\x00\x01"),
        (serdes.long, -2, b"\xff\xff\xff\xff\xff\xff\xff\xfe"),
        (serdes.double, 1.5, b"\x3f\xf8\x00\x00\x00\x00\x00\x00"),
        (serdes.json, {"a": [1, None]}, b'{"a":[1,null]}'),
    ],
)
def test_bytes_and_back(serde: Serde, value: Any, data: bytes) -> None:
    assert serde.encode(value) == data
    assert serde.decode(data) == value


@pytest.mark.parametrize(
    ("serde", "data"),
    [(serdes.string, b"\xff"), (serdes.long, b"1"), (serdes.double, b""), (serdes.json, b"{")],
)
def test_decoding_refuses_other_bytes(serde: Serde, data: bytes) -> None:
    with pytest.raises((TypeError, ValueError, struct.error)):
        serde.decode(data)


@pytest.mark.parametrize(
    ("serde", "value"),
    [(serdes.raw, "text"), (serdes.string, b"b"), (serdes.long, 1 << 63), (serdes.double, "1"), (serdes.json, {1, 2})],
)
def test_encoding_refuses_other_values(serde: Serde, value: Any) -> None:
    with pytest.raises((TypeError, ValueError, struct.error)):
        serde.encode(value)


def test_decoders_that_are_tried_on_nulls_refuse_them() -> None:
    for decode in REFUSE_NULLS:
        with pytest.raises((TypeError, ValueError, struct.error)):
            decode(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (bytes, serdes.raw),
        (str, serdes.string),
        (int, serdes.long),
        (float, serdes.double),
        ("json", serdes.json),
        ("str", serdes.string),
        (serdes.json, serdes.json),
    ],
)
def test_types_and_names_stand_for_serdes(given: Any, expected: Serde) -> None:
    assert serde_of(given) is expected


@pytest.mark.parametrize("given", [list, "avro", None, 7])
def test_anything_else_is_no_serde(given: Any) -> None:
    with pytest.raises(TopologyError, match=r"^app\.py:3: .* is not a serde"):
        serde_of(given, "app.py:3")


def test_serdes_are_known_by_name() -> None:
    assert Serde("mine", str.encode, bytes.decode) == Serde("mine", repr, len)  # type: ignore[arg-type]
    assert Serde("mine", str.encode, bytes.decode) != Serde("yours", str.encode, bytes.decode)


@pytest.mark.parametrize(
    ("change", "data"),
    [
        (("n", None), b"n\x01"),
        ((None, "o"), b"o\x00"),
        (("new", "old"), b"\x00\x00\x00\x03newold\x02"),
        (("", ""), b"\x00\x00\x00\x00\x02"),
    ],
)
def test_table_changes_have_the_form_of_kip_904(change: tuple[str | None, str | None], data: bytes) -> None:
    serde = changes_of(serdes.string)
    assert serde.encode(change) == data
    assert serde.decode(data) == change


def test_an_unknown_flag_in_a_table_change_is_an_error() -> None:
    with pytest.raises(ValueError, match="unknown flag 9"):
        changes_of(serdes.string).decode(b"x\x09")
