"""Logs: one event a line, key=value or JSON, times in UTC.

Modules log by `log = structlog.get_logger(__name__)` and `log.info("What happened", key=value)`. Every logger, ours and
the libraries', goes through the standard library's logging and one formatter, so that levels are
set per logger name and all lines look alike. Facts that hold for the whole process (group, worker, member, generation)
are its log context: set once, they are on every line, whatever thread writes it. Lines go to standard error.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

import structlog
from structlog.stdlib import BoundLogger, ProcessorFormatter

from kstreams_worker.observe.levels import parse_levels

LogFormat = Literal["auto", "console", "json"]

LINES_PER_SECOND = 200
"""Limit for one logger: far above what a person can read, far below what makes a broken broker fill a disk."""

_context: dict[str, Any] = {}
_context_lock = threading.Lock()


def configure_logging(
    log_format: LogFormat = "auto", level: str = "info", stream: TextIO | None = None, **context: Any
) -> None:
    """Set up the process's logging; `context` is on every line. Call it again to change it. Raises ValueError."""
    levels = parse_levels(level)
    target = stream if stream is not None else sys.stderr
    as_json = log_format == "json" or (log_format == "auto" and not target.isatty())
    handler = logging.StreamHandler(target)
    handler.setFormatter(_formatter(as_json))
    handler.addFilter(RateLimit(LINES_PER_SECOND))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(levels.root)
    for name, logger_level in levels.loggers.items():
        logging.getLogger(name).setLevel(logger_level)
    logging.captureWarnings(True)
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, ProcessorFormatter.wrap_for_formatter],
        wrapper_class=BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    with _context_lock:
        _context.clear()
    set_log_context(**context)


def set_log_context(**values: Any) -> None:
    """Change what is on every line of this process from now on; a value of None takes the name away."""
    global _context  # noqa: PLW0603 - one context for all threads of the process, replaced whole
    with _context_lock:
        merged = {**_context, **values}
        _context = {name: value for name, value in merged.items() if value is not None}


class RateLimit(logging.Filter):
    """Lets some lines per second and logger through; the next line it lets through says how many it dropped."""

    def __init__(self, lines_per_second: int) -> None:
        super().__init__()
        self._limit = lines_per_second
        self._seconds: dict[str, tuple[int, int]] = {}
        """By logger: the second of the last line, and how many lines it has had."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Count the line; drop it if its logger has used up this second. Threads may race here: exact counts do not
        matter."""
        second = int(record.created)
        last_second, lines = self._seconds.get(record.name, (second, 0))
        if second != last_second:
            if lines > self._limit:
                record.dropped_lines = lines - self._limit
            lines = 0
        self._seconds[record.name] = (second, lines + 1)
        return lines < self._limit


def _formatter(as_json: bool) -> ProcessorFormatter:
    render = structlog.processors.JSONRenderer(_json_line) if as_json else _render_console
    return ProcessorFormatter(
        processors=[
            _add_facts,
            ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            render,
        ],
        use_get_message=True,
    )


def _add_facts(_logger: Any, _method: str, event_dict: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    record: logging.LogRecord = event_dict["_record"]
    moment = datetime.fromtimestamp(record.created, UTC)
    facts: dict[str, Any] = {
        "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "event": event_dict.pop("event"),
        "logger": record.name,
        **_context,
    }
    dropped_lines = getattr(record, "dropped_lines", 0)
    if dropped_lines:
        facts["dropped_lines"] = dropped_lines
    facts.update(event_dict)
    return facts


def _json_line(event_dict: MutableMapping[str, Any], **_options: Any) -> str:
    import orjson  # noqa: PLC0415 - only processes that log JSON need it here

    return orjson.dumps(event_dict, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


_logfmt = structlog.processors.LogfmtRenderer(bool_as_flag=False)


def _render_console(logger: Any, method: str, event_dict: MutableMapping[str, Any]) -> str:
    event = str(event_dict.pop("event")).replace("\r", "").replace("\n", "\\n")
    head = f"{event_dict.pop('time')} {event_dict.pop('level'):<7} {event}"
    del event_dict["logger"]
    facts = {name.replace(" ", "_"): value for name, value in event_dict.items()}
    return f"{head}  {_logfmt(logger, method, facts)}" if facts else head
