"""`kstreams-worker lag`: how far an application is behind its input."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from kstreams_worker.cli.connection import connected
from kstreams_worker.cli.options import ApplicationId, BootstrapServers, ConfigFile, Json, SetValues, group_settings

if TYPE_CHECKING:
    from kstreams_worker.config import Settings
    from kstreams_worker.group.lag import PartitionLag


def lag(
    *,
    application_id: ApplicationId = None,
    bootstrap_servers: BootstrapServers = None,
    config: ConfigFile = None,
    set_values: SetValues = None,
    as_json: Json = False,
) -> None:
    """Show how far an application is behind its input: by partition, by worker, and in all.

    It asks the brokers only, so it works from any machine, and for a group that is stopped too. Lag is what has been
    written and not yet been committed as processed; the newest commit may be commit.interval.ms old.
    """
    settings = group_settings(config, set_values, application_id, bootstrap_servers)
    lags = _look(settings)
    if as_json:
        from kstreams_worker.group.lag import member_lags  # noqa: PLC0415 - `--help` stays fast

        facts = {
            "group": settings.application_id,
            "lag_records": sum(each.lag_records for each in lags),
            "members": [asdict(each) for each in member_lags(lags)],
            "partitions": [asdict(each) for each in lags],
        }
        typer.echo(json.dumps(facts, indent=2))
    else:
        _print(settings.application_id, lags)


def _look(settings: Settings) -> list[PartitionLag]:
    from kstreams_worker.group.lag import input_lags  # noqa: PLC0415 - `--help` stays fast

    with connected(settings) as kafka:
        group = kafka.group.describe_settled(settings.application_id)
        committed = kafka.group.committed_offsets(settings.application_id)
        return input_lags(
            group, committed, kafka.admin, read_committed=settings.processing_guarantee == "exactly_once_v2"
        )


def _print(group_id: str, lags: list[PartitionLag]) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    from kstreams_worker.group.lag import member_lags  # noqa: PLC0415

    console = Console(highlight=False)
    total = sum(each.lag_records for each in lags)
    console.print(f"[bold]{group_id}[/]: {total:,} records behind in {len(lags)} partitions")
    table = Table("topic", "partition", "task", "member", "committed", "end", "lag", box=None, pad_edge=False)
    table.header_style = "bold"
    for index in (1, 4, 5, 6):
        table.columns[index].justify = "right"
    for each in lags:
        committed = "-" if each.committed is None else f"{each.committed:,}"
        table.add_row(
            each.topic,
            str(each.partition),
            each.task or "-",
            each.member or "-",
            committed,
            f"{each.end:,}",
            f"{each.lag_records:,}",
        )
    if lags:
        console.print(table)
    for line in member_lags(lags):
        console.print(f"{line.member}: {line.lag_records:,} records behind in {line.partitions} partitions")
