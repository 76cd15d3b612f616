"""Where results go: tables for people, JSON lines for tools."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import machine


class Report:
    """Prints, and appends to a file of JSON lines if there is one. Each line has `kind`; the first is the machine's."""

    def __init__(self, json_file: Path | None) -> None:
        self.console = Console(highlight=False)
        self._json_file = json_file
        self._started = time.monotonic()
        found = machine.facts()
        self.record("machine", **found)
        self.console.print("  ".join(f"{name} {value}" for name, value in found.items()), style="dim")
        if machine.is_busy(found):
            self.warn("the machine is busy with something else: do not trust these figures")

    def record(self, kind: str, **facts: object) -> None:
        """One JSON line."""
        if self._json_file is not None:
            with self._json_file.open("a") as file:
                file.write(json.dumps({"kind": kind, "time": round(time.time(), 3), **facts}) + "\n")

    def say(self, text: str) -> None:
        """Progress."""
        self.console.print(f"[dim]{time.monotonic() - self._started:6.1f} s[/]  {text}")

    def warn(self, text: str) -> None:
        """Something that spoils the figures."""
        self.console.print(text, style="bold red")

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> None:
        """A table whose first column is text and whose others are figures."""
        table = Table(
            title=title, caption=caption or None, box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left"
        )
        for number, column in enumerate(columns):
            table.add_column(column, justify="right" if number else "left")
        for row in rows:
            table.add_row(*row)
        self.console.print(table)


def spread(values: Sequence[float], form: str = ",.0f") -> str:
    """The median, and from where to where all lie."""
    median = f"{statistics.median(values):{form}}"
    return median if len(values) == 1 else f"{median} ({min(values):{form}} to {max(values):{form}})"
