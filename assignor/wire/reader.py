"""A strict cursor over received bytes: every read is checked against what is left before anything is allocated."""

from __future__ import annotations

import struct

from assignor.wire.errors import MetadataError

VARINT_BYTES_MAX = 10
"""A 64-bit number in groups of seven bits."""


class Reader:
    """Reads fields one after another. Bytes left over at the end are allowed: a later release may append fields."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def fail(self, problem: str) -> MetadataError:
        """The error to raise for a problem at the current position."""
        return MetadataError(f"{problem} at byte {self.position} of {len(self.data)}")

    def left_bytes(self) -> int:
        """How many bytes have not been read."""
        return len(self.data) - self.position

    def raw(self, size_bytes: int) -> bytes:
        """The next bytes. Raises MetadataError if there are fewer."""
        start = self.position
        end = start + size_bytes
        if end > len(self.data):
            raise self.fail(f"needs {size_bytes} bytes, has {len(self.data) - start}")
        self.position = end
        return self.data[start:end]

    def byte(self) -> int:
        """One unsigned byte."""
        if self.position >= len(self.data):
            raise self.fail("truncated")
        value = self.data[self.position]
        self.position += 1
        return value

    def skip_zero(self) -> bool:
        """Whether the next byte is zero, which is then read: the short way past empty collections."""
        if self.data[self.position : self.position + 1] != b"\0":
            return False
        self.position += 1
        return True

    def varint(self) -> int:
        """An unsigned number of at most 64 bits, seven bits a byte, lowest first."""
        position = self.position
        if position < len(self.data):
            value = self.data[position]
            if value < 0x80:  # nearly all of them; a call less for each counts in a large group
                self.position = position + 1
                return value
        return self._long_varint()

    def _long_varint(self) -> int:
        value = self.byte() & 0x7F
        for shift in range(7, 7 * VARINT_BYTES_MAX, 7):
            part = self.byte()
            value |= (part & 0x7F) << shift
            if part < 0x80:
                if value >> 64:
                    break
                return value
        raise self.fail("number of more than 64 bits")

    def count(self, bytes_each: int = 1) -> int:
        """A number of elements that follow, of at least `bytes_each` bytes each: never more than the bytes left hold."""
        value = self.varint()
        if value * bytes_each > len(self.data) - self.position:
            raise self.fail(f"{value} elements announced, {self.left_bytes()} bytes left")
        return value

    def block(self) -> bytes:
        """Bytes with their length in front."""
        return self.raw(self.count())

    def text(self) -> str:
        """UTF-8 text with its length in bytes in front."""
        raw = self.block()
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.fail("text is not UTF-8") from error

    def numbers(self, count: int, width_bytes: int) -> bytes | tuple[int, ...]:
        """`count` unsigned little-endian numbers of 1, 2, 4 or 8 bytes each."""
        raw = self.raw(count * width_bytes)
        if width_bytes == 1:
            return raw
        return struct.unpack(f"<{count}{_LETTER[width_bytes]}", raw)


_LETTER = {2: "H", 4: "I", 8: "Q"}


def varint_bytes(value: int) -> bytes:
    """An unsigned number of at most 64 bits, seven bits a byte, lowest first. Raises MetadataError outside of that."""
    if 0 <= value < 0x80:
        return _SINGLE[value]
    if value < 0 or value >> 64:
        raise MetadataError(f"{value} does not fit an unsigned number of 64 bits")
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SINGLE = tuple(bytes((value,)) for value in range(0x80))


def block_bytes(raw: bytes) -> bytes:
    """Bytes with their length in front."""
    return varint_bytes(len(raw)) + raw


def text_bytes(text: str) -> bytes:
    """UTF-8 text with its length in bytes in front."""
    return block_bytes(text.encode("utf-8"))


def number_width_bytes(largest: int) -> int:
    """The smallest of 1, 2, 4 and 8 bytes that holds a number. Raises MetadataError for more than 64 bits."""
    if largest < 1 << 8:
        return 1
    if largest < 1 << 16:
        return 2
    if largest < 1 << 32:
        return 4
    if largest < 1 << 64:
        return 8
    raise MetadataError(f"{largest} does not fit an unsigned number of 64 bits")


def number_bytes(values: list[int], width_bytes: int) -> bytes:
    """Unsigned little-endian numbers of 1, 2, 4 or 8 bytes each; the inverse of `Reader.numbers`."""
    if width_bytes == 1:
        return bytes(values)
    return struct.pack(f"<{len(values)}{_LETTER[width_bytes]}", *values)
