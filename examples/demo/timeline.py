"""What the reader sees: short lines with the seconds since the start, and bars while learners restore."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from assignor.model import TaskId
from examples.demo.cast import Learner

PLAIN_INTERVAL_S = 1.0
PLAIN_WIDTH = 120


class Timeline:
    """For one thread. Without a terminal there are only lines, none of which is longer than `PLAIN_WIDTH` by much."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        if not self.console.is_terminal:
            self.console = Console(highlight=False, width=PLAIN_WIDTH)
        self.started = time.monotonic()
        self._bars: Progress | None = None
        self._bar_of: dict[TaskId, TaskID] = {}
        self._said_at = 0.0
        self._said = ""

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def rule(self, title: str) -> None:
        """Begin a chapter."""
        self.console.rule(f"[bold]{escape(title)}", align="left")

    def say(self, text: str, *, style: str = "") -> None:
        """One line, however long; its parts in [brackets] are rich's markup."""
        line = f"[dim]{self.seconds:6.1f} s[/]  " + (f"[{style}]{text}[/]" if style else text)
        self.console.print(line, soft_wrap=True)

    def show(self, thing: RenderableType) -> None:
        self.console.print(thing)

    def learners(self, learners: Iterable[Learner]) -> None:
        """How far they are, now; an empty sequence ends the showing."""
        if self.console.is_terminal:
            self._show_bars(list(learners))
        else:
            self._say_percents(list(learners))

    def close(self) -> None:
        """Leave the terminal as it was."""
        self._show_bars([])

    def _show_bars(self, learners: list[Learner]) -> None:
        if not learners:
            if self._bars is not None:
                self._bars.stop()
            self._bars = None
            self._bar_of.clear()
            return
        if self._bars is None:
            self._bars = Progress(*_COLUMNS, console=self.console, transient=True)
            self._bars.start()
        present = {learner.task for learner in learners}
        for task in self._bar_of.keys() - present:
            self._bars.remove_task(self._bar_of.pop(task))
        for learner in learners:
            if learner.task not in self._bar_of:
                self._bar_of[learner.task] = self._bars.add_task(f"{learner.instance} learns {learner.task}")
            facts: dict[str, Any] = {"completed": learner.restored, "total": max(1, learner.end)}
            self._bars.update(self._bar_of[learner.task], **facts)

    def _say_percents(self, learners: list[Learner]) -> None:
        by_instance: dict[str, list[str]] = {}
        for learner in learners:
            by_instance.setdefault(learner.instance, []).append(f"{learner.task} {learner.percent} %")
        said = "; ".join(f"{instance} learns: {', '.join(tasks)}" for instance, tasks in by_instance.items())
        if said and said != self._said and time.monotonic() - self._said_at >= PLAIN_INTERVAL_S:
            self._said, self._said_at = said, time.monotonic()
            self.say(said)


_COLUMNS = (
    TextColumn("          {task.description}"),
    BarColumn(bar_width=40),
    TextColumn("{task.percentage:>3.0f} %  {task.completed:,.0f} of {task.total:,.0f} changelog records"),
)
