"""A network link that can be cut: a TCP proxy in front of a broker's second listener."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from kstreams_worker.devbroker.cluster import Cluster
from kstreams_worker.devbroker.embedded import EmbeddedBroker
from kstreams_worker.devbroker.ports import free_ports
from kstreams_worker.testing.broker import RunningKafka

_HOST = "127.0.0.1"
_CHUNK_BYTES = 64 * 1024

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]
"""The two ends of one side's connection: what it says, and where to answer."""


class Link:
    """Forwards connections to `port` to the listener at `target_port`, from a thread of its own.

    While it is cut nothing passes, in either direction, and no connection is closed: as with a cable that is pulled, both
    sides learn nothing. What was on its way arrives when the link is mended.
    """

    def __init__(self) -> None:
        self.port, self.target_port = free_ports(2)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="link", daemon=True)
        self._open = asyncio.Event()
        self._open.set()
        self._ended = asyncio.Event()
        self._listening = threading.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listening.wait(10), "the link does not listen"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    @property
    def servers(self) -> str:
        """Where to connect to."""
        return f"{_HOST}:{self.port}"

    def cut(self) -> None:
        """Nothing passes from now on."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def mend(self) -> None:
        """All passes again."""
        self._loop.call_soon_threadsafe(self._open.set)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        async with asyncio.TaskGroup() as connections:

            async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                pending.add(connections.create_task(self._connect(reader, writer)))

            pending: set[asyncio.Task[None]] = set()
            server = await asyncio.start_server(accepted, _HOST, self.port)
            self._listening.set()
            await self._ended.wait()
            server.close()
            for connection in pending:
                connection.cancel()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError), contextlib.closing(writer):
            await self._open.wait()
            far_reader, far_writer = await asyncio.open_connection(_HOST, self.target_port)
            with contextlib.closing(far_writer):
                async with asyncio.TaskGroup() as both:
                    for direction in self._directions((reader, writer), (far_reader, far_writer)):
                        both.create_task(direction)

    def _directions(self, near: Ends, far: Ends) -> tuple[Coroutine[None, None, None], Coroutine[None, None, None]]:
        """What carries a connection's bytes there and back."""
        return self._forward(near[0], far[1]), self._forward(far[0], near[1])

    async def _forward(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        """Until one side closes; the other is closed then too."""
        with contextlib.suppress(OSError):
            while data := await source.read(_CHUNK_BYTES):
                await self._open.wait()
                target.write(data)
                await target.drain()
        await self._open.wait()
        target.close()


@contextlib.contextmanager
def kafka_behind(link: Link, directory: Path) -> Iterator[RunningKafka]:
    """A broker with a second listener: who comes by the link, to `link.servers`, is told to go on by the link."""
    [node] = Cluster.open(directory).nodes  # made here, so that its ports are known before it starts
    properties = {
        "listeners": f"CLIENT://{_HOST}:{node.client_port},CONTROLLER://{_HOST}:{node.controller_port},"
        f"LINKED://{_HOST}:{link.target_port}",
        "advertised.listeners": f"CLIENT://{_HOST}:{node.client_port},LINKED://{_HOST}:{link.port}",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT,LINKED:PLAINTEXT",
    }
    with EmbeddedBroker(data_dir=directory, properties=properties) as broker:
        yield RunningKafka(broker.bootstrap_servers, broker)
