"""Picks TCP ports that a broker can keep, over restarts too."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

from kstreams_worker.devbroker.properties import HOST
from kstreams_worker.errors import KStreamsError

# Below every system's range of ephemeral ports. Inside that range, while a broker is down, a client that keeps trying
# to reconnect could be given the broker's port as its own local one, connect to itself, and keep the port taken.
_PORT_MIN, _PORT_MAX = 20_000, 32_000
_TRIES_MAX = 200


def free_ports(count: int) -> list[int]:
    """`count` different ports of the loopback address that nobody listens on now. Raises KStreamsError."""
    choose = random.SystemRandom()
    ports: list[int] = []
    with ExitStack() as held:
        for _ in range(_TRIES_MAX):
            if len(ports) == count:
                return ports
            port = choose.randrange(_PORT_MIN, _PORT_MAX)
            probe = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            ports.append(port)
    raise KStreamsError(f"found no {count} free ports between {_PORT_MIN} and {_PORT_MAX} on {HOST}")


def is_free(port: int) -> bool:
    """Whether a broker could listen on `port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the broker does: connections of a predecessor that linger in TIME_WAIT are no hindrance.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
