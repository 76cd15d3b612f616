"""Checks on what a user wrote, each raising TopologyError with the place of the user's call."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kstreams_worker.errors import TopologyError

_PACKAGE = str(Path(__file__).parent)
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def call_site() -> str:
    """`file:line` of the nearest caller outside the DSL; the file relative to the working directory where it is below it."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    path = Path(frame.f_code.co_filename)
    working_directory = Path.cwd()
    if path.is_relative_to(working_directory):
        path = path.relative_to(working_directory)
    return f"{path}:{frame.f_lineno}"


def check_topic(name: object, location: str) -> str:
    """A topic name by the broker's own rules."""
    if not isinstance(name, str) or not _TOPIC.fullmatch(name) or name in {".", ".."}:
        raise TopologyError(
            f"{name!r} is not a topic name: 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_', '-', and not '.' or '..'",
            location,
        )
    return name


def check_name(name: object, what: str, location: str) -> str:
    """The name of a store, node or internal topic: it becomes part of a topic's name, so the same characters hold."""
    if not isinstance(name, str) or not _TOPIC.fullmatch(name) or name in {".", ".."}:
        raise TopologyError(f"{name!r} cannot name a {what}: use the characters a-z, A-Z, 0-9, '.', '_', '-'", location)
    return name


def check_function(function: object, called: str, argument_count: int, location: str) -> None:
    """That `function` can be called as `called` shows (for the message) with that many arguments."""
    if not callable(function):
        raise TopologyError(f"{called} needs a function, got {function!r}", location)
    if inspect.iscoroutinefunction(function):
        raise TopologyError(f"{called} needs a plain function, {name_of(function)} is a coroutine function", location)
    if not accepts(function, argument_count):
        raise TopologyError(
            f"{called} calls its function with {argument_count} argument{'s'[: argument_count != 1]}, "
            f"but it is {name_of(function)}{inspect.signature(function)}",
            location,
        )


def accepts(function: Callable[..., Any], argument_count: int) -> bool:
    """Whether it can be called with that many positional arguments; True where Python cannot tell (some built-ins)."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*range(argument_count))
    except TypeError:
        return False
    return True


def name_of(function: object) -> str:
    return getattr(function, "__qualname__", None) or repr(function)
