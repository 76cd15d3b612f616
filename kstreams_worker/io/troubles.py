"""Why brokers cannot be reached. A call only times out; what went wrong is told to the client's error callback."""

from __future__ import annotations

import re
from collections.abc import Mapping

from confluent_kafka import KafkaError

from kstreams_worker.errors import BrokersUnreachable

HOPELESS = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})
"""Codes of errors that do not pass while one waits: the broker is there, and settings would have to be others."""

_NEXT_STEPS: Mapping[int, str] = {
    KafkaError._AUTHENTICATION: "check security.protocol, sasl.mechanisms, sasl.username and sasl.password",
    KafkaError._SSL: "check security.protocol, ssl.ca.location, and the client's certificate if it has one",
}
_TLS = re.compile(r"\b(SSL|TLS)\b", re.IGNORECASE)
_WHERE = re.compile(r"^(?:\w+://)?[^/]+/\w+: ")
_WHEN = re.compile(r" \(after \d+ms in state .*\)$")


class Troubles:
    """What a client has complained about. `heard` is its `error_cb`, called from within its `poll`."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._worst: tuple[bool, int, KafkaError] | None = None
        """Whether it is hopeless, and how much is said of it."""

    def heard(self, error: KafkaError) -> None:
        """Take note of it, if it tells more than what was heard before. A broken connection is told in several ways."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # follows from the others
            return
        is_hopeless, told = error.code() in HOPELESS, len(_reason(error))
        if self._worst is None or (is_hopeless, told) > self._worst[:2]:
            self._worst = is_hopeless, told, error

    def forget(self) -> None:
        """Begin anew."""
        self._worst = None

    @property
    def are_hopeless(self) -> bool:
        return self._worst is not None and self._worst[0]

    def unreachable(self, otherwise: str) -> BrokersUnreachable:
        """Why the brokers cannot be reached, and what to do. `otherwise` is what is known without a complaint."""
        if self._worst is None:
            # Neither refused nor let in, or the client would have complained.
            reason = otherwise
            step = (
                "check bootstrap.servers, that the brokers are up, and security.protocol: a listener that expects TLS or "
                "SASL hangs up on those who come without"
            )
        else:
            error = self._worst[2]
            reason = _reason(error)
            code = KafkaError._SSL if _TLS.search(reason) else error.code()
            step = _NEXT_STEPS.get(code, "check bootstrap.servers and that the brokers are up")
        return BrokersUnreachable(f"cannot reach Kafka at {self._servers}: {reason}", step)


def _reason(error: KafkaError) -> str:
    """Without the broker's name, which is told anyway, and the state that the connection was in."""
    return _WHEN.sub("", _WHERE.sub("", error.str()))
