"""`module:attribute` to a topology; each mistake is one line that says where it is."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kstreams_worker.errors import TopologyError, UsageError
from kstreams_worker.runtime.load import load_topology
from kstreams_worker.topology.topology import Topology

BUILDER = """
from kstreams_worker.topology.builder import StreamsBuilder

def build():
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    return builder.build()

topology = build()
number = 7
def wrong(): return StreamsBuilder()
def fails(): return int("seven")
def needy(path): return build()
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current directory of its own; modules imported from it are forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("made_"):
            del sys.modules[name]


def write(name: str, text: str) -> None:
    Path(name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("attribute", ["topology", "build"])
def test_a_topology_or_a_function_that_builds_one(attribute: str) -> None:
    write("made_app.py", BUILDER)
    loaded = load_topology(f"made_app:{attribute}")
    assert isinstance(loaded, Topology)
    assert loaded.source_topics == ("in",)


def test_a_module_in_a_package() -> None:
    Path("made_package").mkdir()
    write("made_package/app.py", BUILDER)
    assert load_topology("made_package.app:topology").sink_topics == ("out",)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("made_app", "'made_app' is not MODULE:ATTRIBUTE, such as examples.orders:topology"),
        ("made_app:", "'made_app:' is not MODULE:ATTRIBUTE"),
        ("made_none:topology", "no module named 'made_none'; looked in "),
        ("made_none.app:topology", "no module named 'made_none'; looked in "),
        ("made_app:topologie", r"made_app \(.*made_app\.py\) has no 'topologie'; did you mean made_app:topology\?"),
        ("made_app:xyz", "it has build, fails, needy, topology, wrong"),
        ("made_app:number", "made_app:number is of type int, not a Topology"),
        ("made_app:wrong", r"made_app:wrong\(\) returned a StreamsBuilder, not a Topology"),
        ("made_app:needy", r"made_app:needy\(path\) needs arguments"),
        ("made_app:fails", r"made_app:fails\(\) failed at .*made_app\.py:12: ValueError: invalid literal"),
    ],
)
def test_mistakes_in_the_reference(reference: str, message: str) -> None:
    write("made_app.py", BUILDER)
    with pytest.raises(UsageError, match=message) as caught:
        load_topology(reference)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ny = x / 0\n", r"cannot import made_broken: .*made_broken\.py:2: ZeroDivisionError: division by zero"),
        ("def f(:\n", r"cannot import made_broken: .*made_broken\.py:1: SyntaxError: "),
        ("import made_missing\n", r".*made_broken\.py:1: ModuleNotFoundError: No module named 'made_missing'"),
        ("import json\njson.loads('{')\n", r".*made_broken\.py:2: JSONDecodeError: "),
        ("import sys\nsys.exit(3)\n", r".*made_broken\.py:2: SystemExit: 3"),
    ],
)
def test_a_module_that_cannot_be_imported_is_told_with_file_and_line(text: str, message: str) -> None:
    """The line is the user's own, not one in a library it calls."""
    write("made_broken.py", text)
    with pytest.raises(UsageError, match=message):
        load_topology("made_broken:topology")


def test_errors_of_the_topology_itself_keep_their_own_words() -> None:
    write(
        "made_empty.py",
        "from kstreams_worker.topology.builder import StreamsBuilder\ndef topology():\n    return StreamsBuilder().build()\n",
    )
    with pytest.raises(TopologyError, match=r"made_empty\.py:3: the topology is empty"):
        load_topology("made_empty:topology")
