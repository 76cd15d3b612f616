"""Log levels as the setting `log.level` writes them: `info`, or `info,kafka=debug,restore=warning`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

LEVELS: Mapping[str, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

# The client libraries report each connection and each retry at INFO; what matters of it reaches our own log as events.
QUIET_BY_DEFAULT: Mapping[str, int] = {
    "kafka": logging.CRITICAL,
    "confluent": logging.WARNING,
    "uvicorn": logging.WARNING,
    "asyncio": logging.WARNING,
}


@dataclass(frozen=True, slots=True)
class LogLevels:
    """The level of everything, and of single loggers (by their dotted name)."""

    root: int
    loggers: Mapping[str, int]


def parse_levels(text: str) -> LogLevels:
    """Read `LEVEL[,LOGGER=LEVEL...]`. A later entry wins. Raises ValueError naming the entry that cannot be read."""
    root = logging.INFO
    loggers = dict(QUIET_BY_DEFAULT)
    for entry in text.split(","):
        name, separator, level_name = entry.strip().rpartition("=")
        level = LEVELS.get(level_name.strip().lower())
        if level is None or (separator and not name.strip()):
            raise ValueError(f"{entry.strip()!r} is not LEVEL or LOGGER=LEVEL; levels are {', '.join(LEVELS)}")
        if separator:
            loggers[name.strip()] = level
        else:
            root = level
    return LogLevels(root, loggers)
