"""`kstreams-worker group`: the consumer group behind an application."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from kstreams_worker.cli.connection import connected
from kstreams_worker.cli.options import ApplicationId, BootstrapServers, ConfigFile, Json, SetValues, group_settings

if TYPE_CHECKING:
    from kstreams_worker.group.events import GroupDescription
    from kstreams_worker.group.members import MemberLine

app = typer.Typer(name="group", help="Look at the consumer group behind an application.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Look at the consumer group behind an application."""


@app.command()
def describe(
    *,
    application_id: ApplicationId = None,
    bootstrap_servers: BootstrapServers = None,
    config: ConfigFile = None,
    set_values: SetValues = None,
    as_json: Json = False,
) -> None:
    """Show the group's state and its members: who leads, who leaves, what each runs.

    It asks the brokers only, so it works from any machine. While a round is on, the brokers know no more than who the
    members are. The exit code is 1 if there is no such group.
    """
    settings = group_settings(config, set_values, application_id, bootstrap_servers)
    from kstreams_worker.group.members import member_lines  # noqa: PLC0415 - `--help` stays fast

    with connected(settings) as kafka:
        group = kafka.group.describe(settings.application_id)
    members = member_lines(group)
    if as_json:
        facts = {"group": group.group_id, "state": group.state, "protocol_type": group.protocol_type}
        typer.echo(json.dumps({**facts, "members": [asdict(line) for line in members]}, indent=2))
    else:
        _print(group, members)


def _print(group: GroupDescription, members: tuple[MemberLine, ...]) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    console = Console(highlight=False)
    topologies = {line.topology for line in members if line.topology}
    protocol = group.protocol_type or "none yet"
    console.print(f"[bold]{group.group_id}[/]: {group.state}, protocol type {protocol}, {len(members)} members")
    columns = ("member", "host", "version", "active", "being learned", "learning", "standby", "remarks")
    table = Table(*columns, box=None, header_style="bold", pad_edge=False)
    for column in table.columns[3:7]:
        column.justify = "right"
    for line in members:
        counts = (line.active, line.being_learned, line.learning, line.standby)
        version = "?" if line.metadata_version is None else str(line.metadata_version)
        table.add_row(line.name, line.host, version, *map(str, counts), _remarks(line, len(topologies) > 1))
    if members:
        console.print(table)


def _remarks(line: MemberLine, topologies_differ: bool) -> str:
    patience = "" if line.leave_timeout_ms is None else f" within {line.leave_timeout_ms / 1000:g} s"
    remarks = {
        "leader": line.is_leader,
        f"leaving{patience}": line.leaving,
        f"static: {line.group_instance_id}": line.group_instance_id is not None,
        f"topology {line.topology}": topologies_differ and bool(line.topology),
        line.error: bool(line.error),
    }
    return ", ".join(remark for remark, holds in remarks.items() if holds)
