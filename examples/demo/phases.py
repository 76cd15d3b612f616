"""What happened when, as figures: each task's longest gap at the output, told apart by whether the task moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from rich import box
from rich.table import Table

from assignor.model import TaskId
from examples.demo.cast import names


@dataclass(slots=True)
class Phase:
    """From `began` to `ended` (seconds of `time.monotonic`). `moved` are the tasks that changed hands or lost their worker."""

    title: str
    began: float
    processed_before: int
    ended: float = 0.0
    processed: int = 0
    moved: set[TaskId] = field(default_factory=set)

    def overlap(self, start: float, end: float) -> float:
        return min(end, self.ended) - max(start, self.began)


@dataclass(frozen=True, slots=True)
class Gap:
    """The longest time without a visible record."""

    seconds: float
    what: str


def longest_gaps(moments: Mapping[str, Sequence[float]], phases: Sequence[Phase]) -> dict[str, list[Gap]]:
    """Per phase title, the longest gap of each series. A gap belongs to the phase in which most of it lies."""
    longest: dict[str, dict[str, float]] = {phase.title: {} for phase in phases}
    for what, series in moments.items():
        for start, end in pairwise(series):
            phase = max(phases, key=lambda phase: phase.overlap(start, end))
            if phase.overlap(start, end) > 0:
                found = longest[phase.title]
                found[what] = max(found.get(what, 0.0), end - start)
    return {title: [Gap(seconds, what) for what, seconds in found.items()] for title, found in longest.items()}


def summary(
    phases: Sequence[Phase],
    tasks: Iterable[TaskId],
    task_moments: Mapping[str, Sequence[float]],
    input_moments: Mapping[str, Sequence[float]],
    commit_interval_ms: int,
) -> Table:
    """The table at the end of the demo."""
    table = Table(box=box.SIMPLE_HEAD, title="Longest gaps at the output", title_justify="left", padding=(0, 1, 0, 0))
    table.add_column("phase")
    table.add_column("tasks moved", overflow="fold")
    table.add_column("longest gap,\nmoved", justify="right", no_wrap=True)
    table.add_column("longest gap,\nunmoved", justify="right", no_wrap=True)
    table.add_column("of the\ninput", justify="right", no_wrap=True)
    table.add_column("records\nprocessed", justify="right", no_wrap=True)
    table.add_column("took", justify="right", no_wrap=True)
    all_tasks = frozenset(tasks)
    outputs, inputs = longest_gaps(task_moments, phases), longest_gaps(input_moments, phases)
    for phase in phases:
        gaps = outputs[phase.title]
        moved = [gap for gap in gaps if gap.what in set(map(str, phase.moved))]
        unmoved = [gap for gap in gaps if gap not in moved]
        told = f"{len(phase.moved)} of {len(all_tasks)}: {names(phase.moved)}" if phase.moved else "none"
        table.add_row(
            phase.title,
            told,
            _longest(moved),
            _longest(unmoved),
            _longest(inputs[phase.title], named=False),
            f"{phase.processed:,}",
            f"{phase.ended - phase.began:.0f} s",
        )
    table.caption = (
        f"Seconds between records of a task becoming visible. Commits are {commit_interval_ms} ms apart, so no task can do "
        "better than that; the input's gaps are Spark's pauses. After kill -9, unmoved tasks of the second subtopology wait "
        "too, until the open transaction of the killed worker, of whose records they read, is ended."
    )
    table.caption_justify = "left"
    return table


def _longest(gaps: Iterable[Gap], *, named: bool = True) -> str:
    worst = max(gaps, key=lambda gap: gap.seconds, default=None)
    if worst is None:
        return "-"
    return f"{worst.seconds:.2f} s ({worst.what})" if named else f"{worst.seconds:.2f} s"
