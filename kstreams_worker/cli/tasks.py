"""`kstreams-worker tasks`: the live group, read from the broker."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kstreams_worker.cli.connection import Connection, connected
from kstreams_worker.cli.options import ApplicationId, BootstrapServers, ConfigFile, Json, SetValues, group_settings

if TYPE_CHECKING:
    from rich.table import Table

    from kstreams_worker.config import Settings
    from kstreams_worker.group.overview import GroupOverview


def tasks(
    *,
    application_id: ApplicationId = None,
    bootstrap_servers: BootstrapServers = None,
    config: ConfigFile = None,
    set_values: SetValues = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on and on, until Ctrl-C.")] = False,
    interval_s: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.1, help="Between two looks of --watch.")
    ] = 2.0,
    as_json: Json = False,
) -> None:
    """Show a live group: instances, workers, and each task's owner, role and lag.

    It asks the brokers only, so it works from any machine. The lag of an active task is that of its input now; that of
    a learner or standby is what its worker said in the last round (its instance's /tasks page has it to the second).
    While a round is on, the brokers do not tell who has what, and it waits for the round's end. With --watch and --json
    each look is one line.
    """
    settings = group_settings(config, set_values, application_id, bootstrap_servers)
    with connected(settings) as kafka:

        def look() -> GroupOverview:
            return _look(settings, kafka)

        if watch:
            with contextlib.suppress(KeyboardInterrupt):
                (_watch_json if as_json else _watch)(look, interval_s)
        elif as_json:
            typer.echo(json.dumps(_facts(look()), indent=2))
        else:
            _print(look())


def _look(settings: Settings, kafka: Connection) -> GroupOverview:
    from kstreams_worker.group.lag import input_lags, task_lags  # noqa: PLC0415 - `--help` stays fast
    from kstreams_worker.group.overview import overview  # noqa: PLC0415

    group = kafka.group.describe_settled(settings.application_id)
    committed = kafka.group.committed_offsets(settings.application_id)
    read_committed = settings.processing_guarantee == "exactly_once_v2"
    return overview(group, task_lags(input_lags(group, committed, kafka.admin, read_committed=read_committed)))


def _watch_json(look: Callable[[], GroupOverview], interval_s: float) -> None:
    while True:
        typer.echo(json.dumps(_facts(look())))
        time.sleep(interval_s)


def _watch(look: Callable[[], GroupOverview], interval_s: float) -> None:
    from rich.console import Console, Group  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from kstreams_worker.errors import BrokerError, GroupError  # noqa: PLC0415

    shown = Group(*_shown(look()))
    with Live(shown, console=Console(highlight=False), auto_refresh=False) as live:
        while True:
            time.sleep(interval_s)
            try:
                shown = Group(*_shown(look()))
                live.update(shown, refresh=True)
            except (BrokerError, GroupError) as error:  # brokers may be back in a moment, a long round may end
                live.update(Group(shown, Text(str(error), style="red")), refresh=True)


def _facts(group: GroupOverview) -> dict[str, Any]:
    facts = asdict(group)
    for instance in facts["instances"]:
        for worker in instance["workers"]:
            for task in worker["tasks"]:
                task["task"] = "{}_{}".format(*task["task"])
    return facts


def _print(group: GroupOverview) -> None:
    from rich.console import Console  # noqa: PLC0415

    console = Console(highlight=False)
    for part in _shown(group):
        console.print(part)


def _shown(group: GroupOverview) -> tuple[str, Table]:
    from rich.table import Table  # noqa: PLC0415

    workers = sum(len(instance.workers) for instance in group.instances)
    head = (
        f"[bold]{group.group_id}[/]: {group.state}, protocol type {group.protocol_type or 'none yet'}, "
        f"{len(group.instances)} instances, {workers} workers"
    )
    table = Table("instance", "worker", "task", "role", "state", "lag", box=None, header_style="bold", pad_edge=False)
    table.columns[-1].justify = "right"
    for instance in group.instances:
        name = f"{instance.name} {instance.process_id[:8]}"
        for worker in instance.workers:
            marks = [mark for mark, holds in (("leader", worker.is_leader), ("leaving", worker.leaving)) if holds]
            label = f"{worker.index}{' (' + ', '.join(marks) + ')' if marks else ''}"
            if not worker.tasks:
                table.add_row(name, label, "-", "", "", "")
            for line in worker.tasks:
                lag = "?" if line.lag_records is None else f"{line.lag_records:,}"
                table.add_row(name, label, str(line.task), line.role, line.state, lag)
                name, label = "", ""
            name = ""
    return head, table
