"""Which metadata versions this code speaks, and the choice among them.

All metadata starts with the version it is written in (int32, big-endian); from version 3 on the sender's latest
supported version follows. So a leader that gets a subscription of a later version can read these two and answer with
the version that it speaks itself, instead of failing (KIP-268, version probing).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from assignor.model import Assignment, Subscription
from assignor.wire import version4
from assignor.wire.errors import MetadataError

PROBING_SINCE_VERSION = 3
"""The first version that carries the sender's latest supported version."""

_ONE = struct.Struct(">i")
_TWO = struct.Struct(">ii")


@dataclass(frozen=True, slots=True)
class FutureVersion:
    """A subscription written in a version later than any we know: all that can be read of it."""

    used_version: int
    latest_version: int


@dataclass(frozen=True, slots=True)
class VersionCodec:
    """How one version is written and read. Each function raises MetadataError for what its version cannot carry."""

    encode_subscription: Callable[[Subscription], bytes]
    decode_subscription: Callable[[bytes], Subscription]
    encode_assignment: Callable[[Assignment], bytes]
    decode_assignment: Callable[[bytes], Assignment]


class Registry:
    """The versions that one member speaks. Tests make one of their own to play a member of a later release."""

    def __init__(self, codecs: Mapping[int, VersionCodec]) -> None:
        self._codecs = dict(sorted(codecs.items()))
        self.latest_version = max(self._codecs)

    def versions(self) -> tuple[int, ...]:
        """All versions spoken, ascending."""
        return tuple(self._codecs)

    def with_version(self, version: int, codec: VersionCodec) -> Registry:
        """A registry that speaks one version more."""
        return Registry({**self._codecs, version: codec})

    def encode_subscription(self, subscription: Subscription) -> bytes:
        """A subscription in the version that it names as used."""
        return self._codec(subscription.used_version).encode_subscription(subscription)

    def decode_subscription(self, data: bytes) -> Subscription | FutureVersion:
        """A subscription, or the two version numbers of one from a later release; MetadataError for anything else."""
        used_version = self._used_version(data)
        if used_version <= self.latest_version:
            return self._codec(used_version).decode_subscription(data)
        if len(data) < _TWO.size:
            raise MetadataError(f"version {used_version} without the sender's latest version: {len(data)} bytes")
        latest_version = _TWO.unpack_from(data)[1]
        if latest_version < used_version:
            raise MetadataError(f"used version {used_version} is above the sender's latest, {latest_version}")
        return FutureVersion(used_version, latest_version)

    def encode_assignment(self, assignment: Assignment) -> bytes:
        """An assignment in the version that it names as used."""
        return self._codec(assignment.used_version).encode_assignment(assignment)

    def decode_assignment(self, data: bytes) -> Assignment:
        """An assignment. A version later than ours is an error here: a leader answers in a version its members know."""
        return self._codec(self._used_version(data)).decode_assignment(data)

    def _used_version(self, data: bytes) -> int:
        if len(data) < _ONE.size:
            raise MetadataError(f"{len(data)} bytes are no metadata")
        version: int = _ONE.unpack_from(data)[0]
        return version

    def _codec(self, version: int) -> VersionCodec:
        codec = self._codecs.get(version)
        if codec is None:
            spoken = ", ".join(map(str, self._codecs))
            raise MetadataError(f"metadata version {version} is not spoken here (only {spoken})")
        return codec


REGISTRY = Registry(
    {
        version4.VERSION: VersionCodec(
            version4.encode_subscription,
            version4.decode_subscription,
            version4.encode_assignment,
            version4.decode_assignment,
        ),
    }
)
"""What this release speaks."""
