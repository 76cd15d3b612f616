"""What a store is: its name, how its keys and values become bytes, and whether it has a changelog."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
"""As Kafka allows in topic names, since the changelog carries the store's name; no leading dot, since a directory does too."""


DAMAGED_INFIX = ".damaged-"
_RESERVED = re.compile(r".*(\.damaged-.*|\.prepared|\.replaced)")
"""What directories beside a store's own are called."""


def is_store_name(name: str) -> bool:
    """Whether a store may have this name, and so whether a directory of this name may be a store."""
    return _NAME.fullmatch(name) is not None and _RESERVED.fullmatch(name) is None


@dataclass(frozen=True, slots=True)
class Codec:
    """A pair of functions between values and bytes; `decode(encode(value)) == value`. Neither is called with None."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def _same(data: bytes) -> bytes:
    return data


RAW = Codec(_same, _same)
"""For keys or values that are bytes already."""


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """One store of a subtopology; every task of the subtopology has its own.

    Raises:
        ValueError: the name does not fit a topic and a directory.
    """

    name: str
    key: Codec = RAW
    value: Codec = RAW
    logged: bool = True
    """Whether a changelog backs the store. Without one, state that moves to another machine starts empty."""
    cached: bool = True
    """Whether updates are forwarded downstream once per commit (the newest per key) rather than one by one."""
    persistent: bool = True
    """False: the store lives in memory only, and is restored from its changelog each time it is opened."""

    def __post_init__(self) -> None:
        if not is_store_name(self.name):
            raise ValueError(
                f"store name {self.name!r}: use 1 to 200 letters, digits, '.', '_' or '-', not starting with a dot and "
                "not ending in .prepared, .replaced or .damaged-..."
            )

    def changelog_topic(self, application_id: str) -> str:
        """The compacted topic that backs this store, named as Kafka Streams names it."""
        return f"{application_id}-{self.name}-changelog"
