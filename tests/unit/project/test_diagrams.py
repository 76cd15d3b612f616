"""The state diagrams in ARCHITECTURE.md are made from the tables; a change of a table must change the picture."""

from __future__ import annotations

from pathlib import Path

import pytest

from kstreams_worker.group.states import MEMBER_TABLE
from kstreams_worker.machine import Table, mermaid
from kstreams_worker.tasks.states import TASK_TABLE

ARCHITECTURE = Path(__file__).parents[3] / "ARCHITECTURE.md"


@pytest.mark.parametrize("table", [MEMBER_TABLE, TASK_TABLE], ids=["member", "task"])
def test_the_diagram_is_the_table(table: Table[object, object]) -> None:  # type: ignore[type-var]
    """Paste what this test prints where the old diagram stands."""
    assert f"```mermaid\n{mermaid(table)}```" in ARCHITECTURE.read_text()
