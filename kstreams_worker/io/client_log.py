"""librdkafka's own log."""

from __future__ import annotations


class SilentLogger:
    """Drops its lines: what matters of them arrives as errors."""

    def log(self, *_: object, **__: object) -> None:
        """Drop the line."""
