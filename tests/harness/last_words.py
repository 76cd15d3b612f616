"""What a client may hear of a broker that shuts down, at a moment that a test chooses."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine

from harness.proxy import Ends, Link

# The bytes of Kafka's protocol that `LastWords` has to know: a request begins with its key, version and number, an answer
# with that number; one to a request for metadata goes on with no tags, the throttle time and the brokers.
_METADATA_KEY = (3).to_bytes(2)
_METADATA_FLEXIBLE_SINCE = 9
_BROKERS_AT = 4 + 1 + 4


class LastWords(Link):
    """Can have the broker say that there are no brokers, and hang up that moment.

    So does a single one that shuts down: it is out of the cluster already, and answers those who ask just then.
    """

    def __init__(self) -> None:
        super().__init__()
        self._awaited = False
        self._writers: set[asyncio.StreamWriter] = set()

    def say_no_brokers(self) -> None:
        """Whoever asks next for the brokers is told that there are none. All can connect again at once."""
        self._awaited = True

    @property
    def are_said(self) -> bool:
        """Whether somebody has asked."""
        return not self._awaited

    def _directions(self, near: Ends, far: Ends) -> tuple[Coroutine[None, None, None], Coroutine[None, None, None]]:
        self._writers.add(near[1])
        asked: set[bytes] = set()
        return self._ask(near[0], far[1], asked), self._answer(far[0], near[1], asked)

    async def _ask(self, reader: asyncio.StreamReader, far_writer: asyncio.StreamWriter, asked: set[bytes]) -> None:
        async for request in _frames(reader):
            if request[:2] == _METADATA_KEY:
                assert int.from_bytes(request[2:4]) >= _METADATA_FLEXIBLE_SINCE
                asked.add(request[4:8])
            _write_frame(far_writer, request)
        far_writer.close()

    async def _answer(self, far_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: set[bytes]) -> None:
        async for answer in _frames(far_reader):
            if self._awaited and answer[:4] in asked:
                self._awaited = False
                _write_frame(writer, _without_brokers(answer))
                for each in self._writers:
                    each.close()
                break
            _write_frame(writer, answer)
        writer.close()
        self._writers.discard(writer)


async def _frames(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        while True:
            yield await reader.readexactly(int.from_bytes(await reader.readexactly(4)))


def _write_frame(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(len(frame).to_bytes(4) + frame)


def _without_brokers(metadata: bytes) -> bytes:
    count, at = _varint(metadata, _BROKERS_AT)
    for _ in range(count - 1):
        length, at = _varint(metadata, at + 4)  # behind the id
        length, at = _varint(metadata, at + length - 1 + 4)  # behind the host and the port
        tags, at = _varint(metadata, at + max(0, length - 1))  # behind the rack
        assert tags == 0
    return metadata[:_BROKERS_AT] + b"\x01" + metadata[at:]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at
