"""Rounds until a group is stable again after one instance joins, leaves or dies: `python -m benchmarks.bench_rounds`.

In the simulator, with the real assignor, codec and state machines: rounds do not depend on the machine that this runs on.
10 tasks for each instance, of 100 MB each, in the two incremental ways of rebalancing.
"""

from __future__ import annotations

import argparse
import gc

from rich.console import Console
from rich.table import Table

from kstreams_worker.observe.log import configure_logging
from kstreams_worker.simulator.planning import Change, Cost, Plan, costs

SIZES = (10, 50, 100, 250, 500)
TASKS_PER_INSTANCE = 10
TITLES = {Change.SCALE_UP: "one joins", Change.SCALE_DOWN: "one leaves", Change.CRASH: "one dies"}


def measure(change: Change, instances: int, standbys: int) -> list[Cost]:
    """Eager and conservative."""
    plan = Plan(change, instances=instances, tasks=instances * TASKS_PER_INSTANCE, standbys=standbys)
    return costs(plan)[:2]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--standbys", type=int, default=0)
    options.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    arguments = options.parse_args()
    configure_logging(level="error")
    gc.disable()  # as the command does
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("instances", "event", "way", "rounds", "moved", "stable after", "longest gap"):
        table.add_column(column, justify="left" if column in ("event", "way") else "right", no_wrap=True)
    console = Console()
    with console.status("") as status:
        for instances in arguments.sizes:
            for change, title in TITLES.items():
                status.update(f"{instances} instances, {title}")
                for cost in measure(change, instances, arguments.standbys):
                    table.add_row(
                        f"{instances}",
                        title,
                        cost.way.value,
                        f"{cost.rounds}",
                        f"{cost.moved_tasks}",
                        f"{cost.time_to_balance_s:,.1f} s",
                        f"{cost.longest_gap_s:.2f} s",
                    )
    console.print(table)


if __name__ == "__main__":
    main()
