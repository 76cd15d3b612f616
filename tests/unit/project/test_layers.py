"""Who may import whom. The rooms are described in ARCHITECTURE.md; this test keeps the description true."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PRODUCT = ("kstreams_worker", "assignor", "state")

# The only rooms that may import these libraries: everything else reaches them through the room's own types.
OWNERS = {
    "kafka": "kstreams_worker/group",
    "confluent_kafka": "kstreams_worker/io",
    "pyspark": "kstreams_worker/pipeline",
    "rocksdict": "state",
    "testcontainers": "kstreams_worker/testing",
    "starlette": "kstreams_worker/observe",
    "uvicorn": "kstreams_worker/observe",
}

# Rooms from the ground up. A room may import from itself and from the rooms below it.
LEVELS = [
    {"assignor"},
    {"state"},
    {"kstreams_worker.errors", "kstreams_worker.machine", "kstreams_worker"},
    {"kstreams_worker.topology"},
    {"kstreams_worker.observe"},
    {"kstreams_worker.config"},
    {"kstreams_worker.tasks"},
    {"kstreams_worker.io"},
    {"kstreams_worker.control"},
    {"kstreams_worker.group"},
    {"kstreams_worker.restore"},
    {"kstreams_worker.runtime", "kstreams_worker.devbroker", "kstreams_worker.simulator"},
    {"kstreams_worker.pipeline", "kstreams_worker.testing"},
    {"kstreams_worker.cli"},
    {"kstreams_worker.__main__"},
]


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for package in PRODUCT:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT), ast.parse(path.read_text())


def imports(tree: ast.Module) -> Iterator[str]:
    """Absolute names of all imported modules, except those for type checking only."""
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module or ""


def room(module: str) -> str:
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "kstreams_worker" else parts[0]


def level_of(name: str) -> int:
    for level, rooms in enumerate(LEVELS):
        if name in rooms:
            return level
    raise AssertionError(f"{name} is in no level: add it to LEVELS and to ARCHITECTURE.md")


@pytest.mark.parametrize("library", OWNERS)
def test_a_library_is_imported_by_its_owner_only(library: str) -> None:
    """Exchanging a client library touches one room."""
    strangers = [
        str(path)
        for path, tree in modules()
        if not str(path).startswith(OWNERS[library]) and any(name.split(".")[0] == library for name in imports(tree))
    ]
    assert strangers == []


def test_imports_point_downwards() -> None:
    """No room imports one above it, or beside it."""
    upward = [
        f"{path} imports {name}"
        for path, tree in modules()
        for name in imports(tree)
        if name.split(".")[0] in PRODUCT
        and room(name) != (own := room(".".join(path.with_suffix("").parts)))
        and level_of(room(name)) >= level_of(own)
    ]
    assert upward == []


def test_the_assignor_uses_the_standard_library_only() -> None:
    """A pure function needs nothing else, and anybody can run it anywhere."""
    foreign = {
        name
        for path, tree in modules()
        if path.parts[0] == "assignor"
        for name in imports(tree)
        if name.split(".")[0] not in {*sys.stdlib_module_names, "assignor"}
    }
    assert foreign == set()


@pytest.mark.parametrize("module", ["threading", "time", "socket", "multiprocessing"])
def test_the_simulator_has_no_clock_or_thread(module: str) -> None:
    """The same seed gives the same history; its dice are seeded."""
    users = [str(path) for path, tree in modules() if path.parts[1] == "simulator" and module in imports(tree)]
    assert users == []


@pytest.mark.parametrize("module", ["threading", "time", "socket", "random"])
def test_the_assignor_has_no_clock_thread_or_chance(module: str) -> None:
    """Its result depends on its input alone."""
    users = [str(path) for path, tree in modules() if path.parts[0] == "assignor" and module in imports(tree)]
    assert users == []
