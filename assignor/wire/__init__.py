"""Members' metadata on the wire: subscriptions to the leader, assignments from it.

`decode_subscription` never crashes a leader: it returns the subscription, or a `FutureVersion` for one of a later
release, or raises `MetadataError`. Formats are contracts; the golden bytes of every version lie under `tests/contract/`.
"""

from __future__ import annotations

from assignor.wire.errors import MetadataError
from assignor.wire.registry import REGISTRY, FutureVersion, Registry, VersionCodec

encode_subscription = REGISTRY.encode_subscription
decode_subscription = REGISTRY.decode_subscription
encode_assignment = REGISTRY.encode_assignment
decode_assignment = REGISTRY.decode_assignment

__all__ = [
    "REGISTRY",
    "FutureVersion",
    "MetadataError",
    "Registry",
    "VersionCodec",
    "decode_assignment",
    "decode_subscription",
    "encode_assignment",
    "encode_subscription",
]
