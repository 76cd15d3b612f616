"""Serdes: how keys and values become bytes and come back, the same bytes as Kafka's own serializers write.

A serde is known by its name: two serdes with one name are taken to write the same bytes. `None` never reaches a serde;
a null key or value stays null.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from kstreams_worker.errors import TopologyError


@dataclass(frozen=True, slots=True)
class Serde:
    """A pair of functions and the name they go by. Both raise any exception on what they cannot convert."""

    name: str
    encode: Callable[[Any], bytes] = field(compare=False, repr=False)
    decode: Callable[[bytes], Any] = field(compare=False, repr=False)
    mutable: bool = field(default=True, compare=False, repr=False)
    """Whether decoded values can be changed in place (dict, list); those are copied where an old value must be kept."""
    holds_anything: bool = field(default=False, compare=False, repr=False)
    """Whether it writes whatever a function returns: such a serde stays in force after map_values()."""


SerdeLike = Serde | type | str
"""What the DSL takes for a serde: a Serde, one of the types bytes, str, int, float, or the name "json"."""


def same_bytes(data: bytes) -> bytes:
    """The decoder of `raw`; generated code leaves the call out."""
    return data


def _checked_bytes(value: bytes) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"expected bytes, got {type(value).__name__}")
    return value


_LONG = struct.Struct(">q")
_DOUBLE = struct.Struct(">d")


def _long_decode(data: bytes, _unpack: Callable[[bytes], tuple[int]] = _LONG.unpack) -> int:
    return _unpack(data)[0]


def _double_decode(data: bytes, _unpack: Callable[[bytes], tuple[float]] = _DOUBLE.unpack) -> float:
    return _unpack(data)[0]


raw = Serde("bytes", _checked_bytes, same_bytes, mutable=False)
string = Serde("str", str.encode, bytes.decode, mutable=False)
"""UTF-8, as StringSerializer writes."""
long = Serde("int", _LONG.pack, _long_decode, mutable=False)
"""Eight bytes, signed, big-endian, as LongSerializer writes."""
double = Serde("float", _DOUBLE.pack, _double_decode, mutable=False)
"""Eight bytes, big-endian, as DoubleSerializer writes."""
json = Serde("json", orjson.dumps, orjson.loads, holds_anything=True)

REFUSE_NULLS = frozenset(serde.decode for serde in (string, long, double, json))
"""Decoders that are known to raise on None, so that a column can be tried in one pass before looking for nulls."""

_NAMED = {serde.name: serde for serde in (raw, string, long, double, json)}
_TYPED: dict[type, Serde] = {bytes: raw, str: string, int: long, float: double}


def serde_of(given: SerdeLike, location: str | None = None) -> Serde:
    """The serde that a user named. Raises TopologyError on anything that names none."""
    if isinstance(given, Serde):
        return given
    found = _TYPED.get(given) if isinstance(given, type) else _NAMED.get(given) if isinstance(given, str) else None
    if found is None:
        raise TopologyError(
            f"{given!r} is not a serde; give bytes, str, int, float, 'json' or a kstreams_worker.Serde", location
        )
    return found


def changes_of(serde: Serde) -> Serde:
    """The serde of table changes, `(new, old)` pairs, on the way to another task. The form is the one of KIP-904.

    A flag byte comes last: 0 = only the old value, 1 = only the new one, 2 = both, after the new one's length (uint32).
    """
    encode, decode = serde.encode, serde.decode

    def encode_change(change: tuple[Any, Any]) -> bytes:
        new, old = change
        if old is None:
            return encode(new) + b"\x01"
        if new is None:
            return encode(old) + b"\x00"
        data = encode(new)
        return len(data).to_bytes(4, "big") + data + encode(old) + b"\x02"

    def decode_change(data: bytes) -> tuple[Any, Any]:
        flag = data[-1]
        if flag == 1:
            return decode(data[:-1]), None
        if flag == 0:
            return None, decode(data[:-1])
        if flag != 2:
            raise ValueError(f"unknown flag {flag} in a table change")
        end = 4 + int.from_bytes(data[:4], "big")
        return decode(data[4:end]), decode(data[end:-1])

    return Serde(f"change({serde.name})", encode_change, decode_change)
