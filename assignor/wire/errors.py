"""What can be wrong with a member's metadata."""

from __future__ import annotations


class MetadataError(ValueError):
    """Bytes that are no metadata of a version we know, or a value that the wire format cannot carry.

    The message says what was wrong and where (byte offset), so that a leader can name the member that sent it.
    """
