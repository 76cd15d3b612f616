"""`kstreams-worker simulate`: what a change of a large group would cost, without a broker."""

from __future__ import annotations

import gc
import json
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kstreams_worker.cli.options import Json

if TYPE_CHECKING:
    from kstreams_worker.simulator.planning import Cost, Plan


MB_MAX = 1e9
"""A petabyte: anything real, and no infinity."""


class EventName(StrEnum):
    """Of the command line, as `planning.Change`."""

    SCALE_UP = "scale-up"
    SCALE_DOWN = "scale-down"
    CRASH = "crash"


def simulate(
    *,
    instances: Annotated[int, typer.Option(min=1, help="Instances at the start.")] = 10,
    tasks: Annotated[int, typer.Option(min=1, help="Stateful tasks.")] = 100,
    workers_per_instance: Annotated[int, typer.Option(min=1, help="num.workers.")] = 1,
    standbys: Annotated[int, typer.Option(min=0, help="num.standby.tasks.")] = 0,
    event: Annotated[EventName, typer.Option(help="What happens. A crash is of whole hosts.")] = EventName.SCALE_UP,
    count: Annotated[int, typer.Option(min=1, help="To how many instances.")] = 1,
    state_mb_per_task: Annotated[
        float, typer.Option(min=0, max=MB_MAX, help="Size of a task's changelog, after compaction.")
    ] = 100,
    state_spread: Annotated[
        float, typer.Option(min=0, max=1, help="Tasks' sizes are within this fraction of it, at random.")
    ] = 0.3,
    restore_mb_s: Annotated[
        float, typer.Option(min=0.001, max=MB_MAX, help="MB per second that one instance restores.")
    ] = 80,
    record_bytes: Annotated[int, typer.Option(min=1, help="Size of a changelog record.")] = 1_000,
    acceptable_recovery_lag: Annotated[int, typer.Option(min=0, help="acceptable.recovery.lag.")] = 10_000,
    imbalance_percentage: Annotated[
        float, typer.Option(min=0, max=1, help="stream.imbalance.percentage, as a fraction.")
    ] = 0.2,
    seed: Annotated[int, typer.Option(help="Of sizes and delays; the same seed gives the same figures.")] = 0,
    as_json: Json = False,
) -> None:
    """Compare ways of rebalancing a group, in simulated time: rounds, time to balance, bytes restored, tasks' downtime.

    The group is simulated with the assignor, metadata and state machines of the real one. The ways are:

    eager: incremental, as with learner.partial.rebalance=true (the default). Owners go on until a learner on another instance
    has restored the task; each task is handed over as soon as it is learned.

    conservative: incremental, as with learner.partial.rebalance=false. A worker takes over once it has learned all its tasks:
    fewer rounds, and tasks that were learned early wait for the others.

    stop-the-world: what groups do that have no learners. All tasks stop, one round hands them out anew, and a worker
    processes again once it has restored all its tasks.

    Columns: rounds; tasks that changed instances; seconds until nothing moves any more; what was restored; for how long tasks
    were not processed, all together (task-seconds); the longest such gap of a single task.
    """
    from rich.console import Console  # noqa: PLC0415 - `--help` stays fast

    from kstreams_worker.observe.log import configure_logging  # noqa: PLC0415
    from kstreams_worker.simulator.planning import Change, Plan, costs  # noqa: PLC0415

    plan = Plan(
        change=Change(event.value),
        count=count,
        instances=instances,
        workers_per_instance=workers_per_instance,
        tasks=tasks,
        standbys=standbys,
        state_mb_per_task=state_mb_per_task,
        state_spread=state_spread,
        restore_mb_s=restore_mb_s,
        record_bytes=record_bytes,
        acceptable_lag=acceptable_recovery_lag,
        imbalance=imbalance_percentage,
        seed=seed,
    )
    if event is not EventName.SCALE_UP and count >= instances:
        raise typer.BadParameter(f"{count} of {instances} instances cannot go: one must stay", param_hint="--count")
    configure_logging(level="error")  # the simulated leader would log every round
    gc.disable()  # a world of millions of objects that all live until the end is not worth searching
    try:
        with Console(stderr=True).status("simulating") as status:
            found = costs(
                plan,
                lambda way, rounds, seconds: status.update(f"{way.value}: {rounds} rounds, {seconds:,.0f} simulated s"),
            )
    finally:
        gc.enable()
    if as_json:
        typer.echo(json.dumps({"plan": asdict(plan), "ways": [asdict(cost) for cost in found]}, indent=2))
    else:
        _print(plan, found)


def _print(plan: Plan, found: list[Cost]) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    console = Console()
    state_gb = plan.tasks * plan.state_mb_per_task / 1000
    console.print(
        f"[bold]{plan.change.value}[/] by {plan.count}, of {plan.instances} instances with {plan.tasks:,} tasks, "
        f"{state_gb:,.1f} GB of state and {plan.standbys} standbys",
        highlight=False,
    )
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("way", no_wrap=True)
    for column in ("rounds", "moved", "balanced s", "restored GB", "stopped task·s", "gap s"):
        table.add_column(column, justify="right", no_wrap=True)
    for cost in found:
        table.add_row(
            cost.way.value,
            f"{cost.rounds:,}",
            f"{cost.moved_tasks:,}",
            f"{cost.time_to_balance_s:,.1f}",
            f"{cost.restored_mb / 1000:,.1f}",
            f"{cost.unavailable_task_s:,.1f}",
            f"{cost.longest_gap_s:,.2f}",
        )
    console.print(table)
