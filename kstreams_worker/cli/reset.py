"""`kstreams-worker reset`: make a stopped application begin again."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from kstreams_worker.cli.connection import connected
from kstreams_worker.cli.options import (
    ApplicationId,
    BootstrapServers,
    ConfigFile,
    Json,
    SetValues,
    TopologyReference,
    group_settings,
)

if TYPE_CHECKING:
    from kstreams_worker.group.positions import Position
    from kstreams_worker.runtime.reset import ResetPlan


def reset(
    topology: TopologyReference,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done.")] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Do it.")] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="Begin with the first record (default).")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Begin after the last record.")] = False,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime",
            metavar="TIME",
            help="Begin at a time, such as 2026-01-31T08:00:00; UTC unless it says more.",
        ),
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option("--by-duration", metavar="DURATION", help="Begin so long ago, such as PT30M or P7D."),
    ] = None,
    shift_by: Annotated[
        int | None,
        typer.Option("--shift-by", metavar="N", help="N records on from what is committed; back if negative."),
    ] = None,
    local_state: Annotated[
        bool, typer.Option("--local-state", help="Also delete the state that this machine keeps in state.dir.")
    ] = False,
    application_id: ApplicationId = None,
    bootstrap_servers: BootstrapServers = None,
    config: ConfigFile = None,
    set_values: SetValues = None,
    as_json: Json = False,
) -> None:
    """Make a stopped application begin again, as Kafka's application reset tool does.

    Sets the offsets of the topology's input topics, and deletes its internal topics (changelogs, repartition topics,
    control topic). It refuses while the group has members. With --local-state, to be given on every machine that ran an
    instance, the state in state.dir goes too. Either --dry-run or --execute must be given.
    """
    settings = group_settings(config, set_values, application_id, bootstrap_servers)
    from kstreams_worker.errors import UsageError  # noqa: PLC0415 - `--help` stays fast

    if dry_run == execute:
        raise UsageError("give --dry-run to see what would be done, or --execute to do it")
    position = _position(to_earliest, to_latest, to_datetime, by_duration, shift_by)
    from kstreams_worker.runtime import reset as runtime  # noqa: PLC0415
    from kstreams_worker.runtime.load import load_topology  # noqa: PLC0415

    loaded = load_topology(topology)
    with connected(settings) as kafka:
        plan = runtime.plan_reset(settings, loaded, position, kafka.group, kafka.admin, local_state=local_state)
        if not as_json:
            _print(plan)
        if execute:
            runtime.execute(plan, kafka.group, kafka.admin)
    if as_json:
        typer.echo(json.dumps({"executed": execute, **asdict(plan)}, indent=2, default=str))
    else:
        typer.echo("Done." if execute else "Nothing was changed: --execute does it.")


def _position(
    to_earliest: bool, to_latest: bool, to_datetime: str | None, by_duration: str | None, shift_by: int | None
) -> Position:
    from kstreams_worker.errors import UsageError  # noqa: PLC0415
    from kstreams_worker.group.positions import ShiftBy, ToEarliest, ToLatest, ToTime  # noqa: PLC0415

    chosen: dict[str, Position] = {}
    if to_earliest:
        chosen["--to-earliest"] = ToEarliest()
    if to_latest:
        chosen["--to-latest"] = ToLatest()
    if to_datetime is not None:
        chosen["--to-datetime"] = ToTime(_timestamp_ms(to_datetime))
    if by_duration is not None:
        chosen["--by-duration"] = ToTime(max(0, int(time.time() * 1000) - _duration_ms(by_duration)))
    if shift_by is not None:
        chosen["--shift-by"] = ShiftBy(shift_by)
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)} contradict each other; keep one")
    return next(iter(chosen.values()), ToEarliest())


def _timestamp_ms(text: str) -> int:
    from datetime import UTC, datetime  # noqa: PLC0415

    from kstreams_worker.errors import UsageError  # noqa: PLC0415

    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--to-datetime {text!r} is not a time such as 2026-01-31T08:00:00") from None
    # Below 0 there are no times: Kafka's protocol means "the end" and "the beginning" by -1 and -2.
    return max(0, int((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp() * 1000))


def _duration_ms(text: str) -> int:
    from datetime import timedelta  # noqa: PLC0415

    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415

    from kstreams_worker.errors import UsageError  # noqa: PLC0415

    problem = UsageError(f"--by-duration {text!r} is not a duration such as PT30M or P7D")
    if not text.startswith("P"):  # a bare number would be taken for seconds
        raise problem
    try:
        duration = TypeAdapter(timedelta).validate_python(text)
    except ValidationError:
        raise problem from None
    return int(duration.total_seconds() * 1000)


def _print(plan: ResetPlan) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    console = Console(highlight=False)
    table = Table("topic", "partition", "committed", "new offset", box=None, header_style="bold", pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for each in plan.offsets:
        before = "-" if each.before is None else f"{each.before:,}"
        table.add_row(each.topic, str(each.partition), before, f"{each.after:,}")
    console.print(table)
    for topic in plan.missing_topics:
        console.print(f"input topic {topic} does not exist")
    for topic in plan.internal_topics:
        console.print(f"delete topic {topic}")
    if plan.local_tasks is None:
        console.print(
            f"leave the state in {plan.state_directory} and on other machines: give --local-state on each of them, "
            "or new records will be counted into old state"
        )
    else:
        tasks = ", ".join(plan.local_tasks) or "none"
        console.print(f"delete the state of tasks in {plan.state_directory}: {tasks}")
