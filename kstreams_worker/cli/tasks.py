"""`kstreams-worker tasks`: the live group, read from the broker."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from kstreams_worker.cli.options import ApplicationId, BootstrapServers, ConfigFile, Json, SetValues, load_settings

if TYPE_CHECKING:
    from kstreams_worker.config import Settings
    from kstreams_worker.group.overview import GroupOverview


def tasks(
    *,
    application_id: ApplicationId = None,
    bootstrap_servers: BootstrapServers = None,
    config: ConfigFile = None,
    set_values: SetValues = None,
    as_json: Json = False,
) -> None:
    """Show a live group: instances, workers, and each task's owner, role and lag.

    It asks the brokers only, so it works from any machine. The lag of an active task is that of its input now; that of
    a learner or standby is what its worker said in the last round (its instance's /tasks page has it to the second).
    """
    settings = load_settings(
        config, set_values, {"application.id": application_id, "bootstrap.servers": bootstrap_servers}
    )
    group = _look(settings)
    if as_json:
        typer.echo(json.dumps(_facts(group), indent=2))
    else:
        _print(group)


def _look(settings: Settings) -> GroupOverview:
    from kstreams_worker.group.client import GroupClient  # noqa: PLC0415 - `--help` stays fast
    from kstreams_worker.group.overview import input_partitions, overview  # noqa: PLC0415
    from kstreams_worker.io.admin import Admin  # noqa: PLC0415

    with GroupClient.connect(settings.group_plane_config()) as client:
        group = client.describe(settings.application_id)
        committed = client.committed_offsets(settings.application_id)
    admin = Admin(settings.client_config("admin"), client_id="kstreams-tool")
    ends = admin.end_offsets(input_partitions(group, committed), committed=True)
    return overview(group, committed, ends)


def _facts(group: GroupOverview) -> dict[str, Any]:
    facts = asdict(group)
    for instance in facts["instances"]:
        for worker in instance["workers"]:
            for task in worker["tasks"]:
                task["task"] = "{}_{}".format(*task["task"])
    return facts


def _print(group: GroupOverview) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    console = Console()
    workers = sum(len(instance.workers) for instance in group.instances)
    console.print(
        f"[bold]{group.group_id}[/]: {group.state}, protocol type {group.protocol_type}, "
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
    console.print(table)
