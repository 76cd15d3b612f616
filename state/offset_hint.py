"""A small file beside a store's own ones that tells its changelog offset without opening RocksDB.

It exists only while the store is closed: opening removes it and a clean close writes it, so it is never out of date;
after a crash it is missing. It lies in the store's directory and goes wherever that goes.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

_FILE = "changelog-offset"
_NEW_FILE = "changelog-offset.new"


def write_offset_hint(store_path: Path, changelog_offset: int | None) -> None:
    """Note the offset, atomically. Failing to is no error: the hint is then older, or missing."""
    if changelog_offset is None:
        return
    with contextlib.suppress(OSError):
        new = store_path / _NEW_FILE
        new.write_text(f"{changelog_offset}\n", encoding="ascii")
        new.replace(store_path / _FILE)


def remove_offset_hint(store_path: Path) -> None:
    """The store is about to change.

    Raises:
        OSError: the file cannot be removed.
    """
    (store_path / _FILE).unlink(missing_ok=True)


def read_offset_hint(store_path: Path) -> int | None:
    """The noted offset; None when there is none, or when what is there is not one (a machine that lost power)."""
    try:
        text = (store_path / _FILE).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(text) if text.isdigit() else None
