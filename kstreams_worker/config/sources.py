"""Where settings come from: the command line, the environment, a file. Each becomes `{dotted name: Given}`.

Precedence is flag > environment > file > default. A name that occurs twice in one source, by its alias, is a mistake
that is reported rather than resolved.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kstreams_worker.config.names import (
    CLIENT_KINDS,
    ENVIRONMENT_PREFIX,
    SECURITY_NAMES,
    canonical_name,
    environment_name,
    is_foreign_variable,
)
from kstreams_worker.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Given:
    """A value that somebody wrote, and where: shown in error messages and by `kstreams-worker config`."""

    value: Any
    source: str


def from_overrides(overrides: Mapping[str, Any], source: str = "flag") -> dict[str, Given]:
    """Settings given by name. None means that the flag was not used."""
    return _canonical((name, Given(value, source)) for name, value in overrides.items() if value is not None)


def from_environment(environment: Mapping[str, str], known: Iterable[str]) -> dict[str, Given]:
    """The settings among the variables `KSTREAMS_...`; one that fits no known name is kept under its likely one."""
    by_variable = {environment_name(name): name for name in (*known, *SECURITY_NAMES)}
    return _canonical(
        (_dotted_of(variable, by_variable), Given(value, f"environment {variable}"))
        for variable, value in environment.items()
        if variable.startswith(ENVIRONMENT_PREFIX) and not is_foreign_variable(variable, value)
    )


def from_file(path: Path) -> dict[str, Given]:
    """Settings of a `.toml` or `.properties` file. Raises SettingsError if it cannot be read or parsed."""
    readers = {".toml": _read_toml, ".properties": _read_properties}
    reader = readers.get(path.suffix)
    if reader is None:
        raise SettingsError(f"{path}: settings files end in {' or '.join(readers)}")
    try:
        pairs = reader(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeError, ValueError) as error:  # tomllib.TOMLDecodeError is a ValueError
        raise SettingsError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    return _canonical((name, Given(value, f"file {path}")) for name, value in pairs)


def merge(*sources: Mapping[str, Given]) -> dict[str, Given]:
    """One mapping of several, the earlier source winning."""
    merged: dict[str, Given] = {}
    for source in reversed(sources):
        merged.update(source)
    return merged


def _canonical(pairs: Iterable[tuple[str, Given]]) -> dict[str, Given]:
    settings: dict[str, Given] = {}
    spelled: dict[str, str] = {}
    for name, given in pairs:
        canonical = canonical_name(name)
        if canonical in settings:
            raise SettingsError(f"{spelled[canonical]} and {name} ({given.source}) are the same setting; keep one")
        settings[canonical] = given
        spelled[canonical] = name
    return settings


def _dotted_of(variable: str, by_variable: Mapping[str, str]) -> str:
    if variable in by_variable:
        return by_variable[variable]
    guess = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
    kind, _, rest = guess.partition("_")
    return f"{kind}.{rest.replace('_', '.')}" if kind in CLIENT_KINDS and rest else guess.replace("_", ".")


def _read_toml(text: str) -> list[tuple[str, Any]]:
    return list(_flatten("", tomllib.loads(text)))


def _flatten(prefix: str, table: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _flatten(f"{name}.", value)
        else:
            yield name, value


_CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\$")
_PAIR = re.compile(r"(?P<key>(?:\\.|[^\\=:\s])+)\s*[=:]?\s*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _read_properties(text: str) -> list[tuple[str, str]]:
    """Read the format of `java.util.Properties`: comments, `=`, `:` or blanks between, continued lines, escapes."""
    pairs: list[tuple[str, str]] = []
    logical = ""
    for physical in text.splitlines():
        line = physical.lstrip()
        if not logical and (not line or line[0] in "#!"):
            continue
        if _CONTINUED.search(line):
            logical += line[:-1]
            continue
        pairs.append(_read_pair(logical + line))
        logical = ""
    if logical:
        pairs.append(_read_pair(logical))
    return pairs


def _read_pair(line: str) -> tuple[str, str]:
    match = _PAIR.match(line)
    if match is None:
        raise ValueError(f"cannot read the line {line!r}")
    return _unescape(match["key"]), _unescape(match["value"])


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        escaped = match[1]
        return chr(int(escaped[1:], 16)) if len(escaped) == 5 else _CONTROL.get(escaped, escaped)

    return _ESCAPE.sub(replace, text)
