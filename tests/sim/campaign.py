"""Many schedules over all cores, or one of them told as a timeline."""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Iterable, Iterator
from typing import Annotated

import structlog
import typer
from rich.progress import track
from sim.schedule import Outcome, play

CHUNK = 10
"""Schedules that a process takes at a time."""
FAILURES_SHOWN = 10

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


def be_quiet() -> None:
    """In this process from now on: leaders of thousands of rounds log nothing. What they do is in the histories."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def play_all(seeds: Iterable[int], processes: int | None = None) -> Iterator[Outcome]:
    """The outcomes of schedules, as they come. Histories of those that went well are left behind."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes or os.cpu_count(), be_quiet) as pool:
        yield from pool.imap_unordered(_play, seeds, CHUNK)


def _play(seed: int) -> Outcome:
    return play(seed).without_history()


@app.command()
def main(
    seed: Annotated[int, typer.Option(help="The first schedule.")] = 0,
    schedules: Annotated[int, typer.Option(min=1, help="How many, with consecutive seeds.")] = 1,
    trace: Annotated[bool, typer.Option("--trace", help="Print the history of the first one.")] = False,
) -> None:
    """Play random schedules of a simulated group and check every round and every moment of them."""
    be_quiet()
    if trace or schedules == 1:
        outcome = play(seed)
        if trace:
            typer.echo("\n".join(outcome.history))
        typer.echo(str(outcome))
        raise typer.Exit(bool(outcome.broken))
    raise typer.Exit(_campaign(range(seed, seed + schedules)))


def _campaign(seeds: range) -> int:
    failures: list[Outcome] = []
    rounds = longest_ms = slowest_rounds = 0
    for outcome in track(play_all(seeds), "schedules", total=len(seeds)):
        rounds += outcome.rounds
        longest_ms = max(longest_ms, outcome.rest_after_ms)
        slowest_rounds = max(slowest_rounds, outcome.rounds_after_faults)
        if outcome.broken:
            failures.append(outcome)
            if len(failures) <= FAILURES_SHOWN:
                typer.echo(str(outcome), err=True)
    typer.echo(
        f"{len(seeds)} schedules, {rounds} rounds, {len(failures)} failures; at rest after at most "
        f"{slowest_rounds} rounds and {longest_ms / 1000:.0f} s of simulated time without faults"
    )
    return bool(failures)
