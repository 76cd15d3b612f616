"""From `module:attribute` to a topology, with every way in which that can go wrong told in one line."""

from __future__ import annotations

import difflib
import importlib
import inspect
import sys
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from kstreams_worker.errors import KStreamsError, UsageError
from kstreams_worker.topology.topology import Topology

_PACKAGE = Path(__file__).parent.parent
_LIBRARIES = tuple({Path(sysconfig.get_path(kind)) for kind in ("stdlib", "purelib", "platlib")})


def load_topology(reference: str) -> Topology:
    """Import the module, with the current directory on the path, and return its topology.

    The attribute is a Topology, or a function without parameters that returns one. Raises UsageError; errors that the
    topology itself raises while it is built (TopologyError, SettingsError, ...) pass through.
    """
    module_name, separator, attribute = reference.partition(":")
    if not (separator and module_name and attribute):
        raise UsageError(f"{reference!r} is not MODULE:ATTRIBUTE, such as examples.orders:topology")
    module = _import(module_name)
    if not hasattr(module, attribute):
        near = difflib.get_close_matches(attribute, _candidates(module), n=1, cutoff=0.5)
        hint = f"did you mean {module_name}:{near[0]}?" if near else f"it has {_list(_candidates(module))}"
        raise UsageError(f"module {module_name} ({_where(module)}) has no {attribute!r}; {hint}")
    found = getattr(module, attribute)
    if isinstance(found, Topology):
        return found
    if not callable(found):
        raise UsageError(
            f"{reference} is of type {type(found).__name__}, not a Topology; call build() on the StreamsBuilder"
        )
    if (needed := _parameters(found)) is not None:
        raise UsageError(f"{reference}{needed} needs arguments; it must be callable without any")
    try:
        built = found()
    except KStreamsError:
        raise
    except Exception as error:
        raise UsageError(f"{reference}() failed at {_place(error)}: {_told(error)}") from error
    if not isinstance(built, Topology):
        raise UsageError(f"{reference}() returned a {type(built).__name__}, not a Topology; return builder.build()")
    return built


def _parameters(function: Callable[..., object]) -> str | None:
    """The signature of a function that cannot be called without arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in ones have none
        return None
    try:
        signature.bind()
    except TypeError:
        return str(signature)
    return None


def _import(module_name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module_name)
    except KStreamsError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise UsageError(f"no module named {error.name!r}; looked in {here} and the installed packages") from error
        raise UsageError(f"cannot import {module_name}: {_place(error)}: {_told(error)}") from error
    except (Exception, SystemExit) as error:  # a script that calls exit() when imported must not end us without a word
        raise UsageError(f"cannot import {module_name}: {_place(error)}: {_told(error)}") from error


def _place(error: BaseException) -> str:
    """`file:line` to look at: the deepest frame of the user's own code, else the deepest of all."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    own = [frame for frame in frames if not Path(frame.filename).is_relative_to(_PACKAGE)]
    users = [frame for frame in own if not any(Path(frame.filename).is_relative_to(path) for path in _LIBRARIES)]
    deepest = (users or own or frames)[-1]
    return f"{deepest.filename}:{deepest.lineno}"


def _told(error: BaseException) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {text}".replace("\n", " ") if text else type(error).__name__


def _candidates(module: ModuleType) -> list[str]:
    """What a user could have meant: topologies, and functions that the module itself defines."""
    return [
        name
        for name, value in vars(module).items()
        if isinstance(value, Topology)
        or (callable(value) and not name.startswith("_") and getattr(value, "__module__", None) == module.__name__)
    ]


def _list(names: list[str]) -> str:
    return ", ".join(sorted(names)) if names else "no topology and no function"


def _where(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or "a namespace package"
