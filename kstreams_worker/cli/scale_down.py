"""`kstreams-worker scale-down`: tell instances to hand over their tasks and leave, and watch them go."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from kstreams_worker.cli.connection import connected
from kstreams_worker.cli.options import ApplicationId, BootstrapServers, ConfigFile, Json, SetValues, group_settings
from kstreams_worker.errors import GroupError, KStreamsError, UsageError

if TYPE_CHECKING:
    from uuid import UUID

    from kstreams_worker.config import Settings
    from kstreams_worker.control.orders import OrderBook
    from kstreams_worker.control.records import LeaveOrder
    from kstreams_worker.group.departures import Departure

LOOK_INTERVAL_S = 0.5
UNHEARD_AFTER_S = 15.0
"""Workers that can read the control topic act on an order within a second."""
INTERRUPTED = 130
ORDERS_STAND = "the orders stand; take them back with --cancel"
_DURATION = re.compile(r"(?P<number>\d+)(?P<unit>ms|s|m|h)")
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}


def scale_down(
    *,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="80%|N", help="The share, or the number, of instances that is to stay."),
    ] = None,
    instances: Annotated[
        str | None,
        typer.Option("--instances", metavar="A,B", help="Instances that are to leave: host, pod, or process id."),
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(
            "--timeout",
            metavar="90s|10m",
            help="Leave after this long even if others are not ready.  [default: each instance's scale.down.timeout.ms]",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Show the progress until they are gone.")] = True,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Take orders back: those of --instances, or all that stand.")
    ] = False,
    application_id: ApplicationId = None,
    bootstrap_servers: BootstrapServers = None,
    config: ConfigFile = None,
    set_values: SetValues = None,
    as_json: Json = False,
) -> None:
    """Tell instances to leave: others learn their tasks first, so the processing does not stop.

    An order stands until the instance has left, also if it crashes and comes back meanwhile; then it is forgotten, and the
    instance may be started again.

    Example: kstreams-worker scale-down --application-id orders --instances pod-3,pod-4 --timeout 10m
    """
    settings = group_settings(config, set_values, application_id, bootstrap_servers)
    names = [name.strip() for name in (instances or "").split(",") if name.strip()]
    if cancel and (to is not None or timeout is not None):
        raise UsageError("--cancel takes back the orders of --instances, or all; --to and --timeout do not go with it")
    if not cancel and (to is None) == (not names):
        raise UsageError("say which instances are to leave, by --to 80% or by --instances A,B")
    timeout_ms = None if timeout is None else _duration_ms(timeout)
    from kstreams_worker.control.orders import OrderBook  # noqa: PLC0415 - `--help` stays fast

    book = OrderBook(settings.client_config("admin"), settings.application_id)
    if cancel:
        _cancel(book, names, as_json)
        return
    orders = _give(settings, book, to, names, timeout_ms)
    if not as_json:
        for order in orders:
            typer.echo(f"{_label(order)}: ordered to leave")
    if wait:
        try:
            _watch(settings, orders, as_json)
        except KeyboardInterrupt:
            typer.echo(ORDERS_STAND, err=True)
            raise typer.Exit(INTERRUPTED) from None
        except KStreamsError:
            typer.echo(ORDERS_STAND, err=True)
            raise
    elif as_json:
        typer.echo(json.dumps({"ordered": [str(order.instance) for order in orders]}))


def _give(
    settings: Settings, book: OrderBook, to: str | None, names: list[str], timeout_ms: int | None
) -> list[LeaveOrder]:
    from uuid import UUID  # noqa: PLC0415

    from kstreams_worker.control.records import LeaveOrder  # noqa: PLC0415
    from kstreams_worker.group.departures import (  # noqa: PLC0415
        addresses,
        by_names,
        by_share,
        check_somebody_stays,
        said_leaving,
    )
    from kstreams_worker.group.overview import overview  # noqa: PLC0415

    with connected(settings) as kafka:
        group = overview(kafka.group.describe_settled(settings.application_id), {})
    there = [instance for instance in group.instances if instance.process_id]
    if not there:
        raise GroupError(
            f"no member of group {settings.application_id} can be read: use the version that its workers run"
        )
    leaving = said_leaving(there) | {str(instance) for instance in book.standing()}
    chosen = by_names(there, names) if to is None else by_share(there, to, leaving)
    check_somebody_stays(there, chosen, leaving)
    now_ms = int(time.time() * 1000)
    orders = [
        LeaveOrder(
            instance=UUID(line.process_id),
            name=line.name,
            addresses=addresses(line),
            timeout_ms=timeout_ms,
            ordered_ms=now_ms,
        )
        for line in chosen
    ]
    book.give(orders)
    return orders


def _cancel(book: OrderBook, names: list[str], as_json: bool) -> None:
    standing = book.standing()
    chosen = [instance for instance, order in standing.items() if not names or _is_meant(order, names)]
    unknown = [name for name in names if not any(_is_meant(order, [name]) for order in standing.values())]
    if unknown:
        known = ", ".join(map(_label, standing.values())) or "none"
        raise UsageError(f"there is no order for {', '.join(unknown)}; those that stand: {known}")
    book.delete(chosen)
    if as_json:
        typer.echo(json.dumps({"taken_back": [str(instance) for instance in chosen]}))
        return
    for instance in chosen:
        typer.echo(f"{_label(standing[instance])}: order taken back")
    if not chosen:
        typer.echo("there is no order to take back")


def _is_meant(order: LeaveOrder, names: list[str]) -> bool:
    from kstreams_worker.group.departures import answers_to  # noqa: PLC0415

    return any(answers_to(name, order.name, str(order.instance), order.addresses) for name in names)


def _label(order: LeaveOrder) -> str:
    from kstreams_worker.group.departures import label  # noqa: PLC0415

    return label(order.name, str(order.instance))


def _watch(settings: Settings, orders: list[LeaveOrder], as_json: bool) -> None:
    """Print a line whenever an instance has got further, until all are gone."""
    shown: dict[UUID, Departure] = {}
    started, hinted = time.monotonic(), False
    for departures in _departures(settings, orders):
        for order, departure in zip(orders, departures, strict=True):
            if shown.get(order.instance) != departure:
                shown[order.instance] = departure
                typer.echo(json.dumps(asdict(departure)) if as_json else _line(departure))
        unheard = [departure for departure in departures if not (departure.told or departure.gone)]
        if unheard and not hinted and time.monotonic() - started > UNHEARD_AFTER_S:
            hinted = True
            typer.echo(
                f"{unheard[0].name} has not heard the order yet: its log says whether it may read the control topic",
                err=True,
            )


def _departures(settings: Settings, orders: list[LeaveOrder]) -> Iterator[list[Departure]]:
    from kstreams_worker.group.client import ROUND_STATES  # noqa: PLC0415
    from kstreams_worker.group.departures import progress  # noqa: PLC0415
    from kstreams_worker.group.overview import overview  # noqa: PLC0415

    with connected(settings) as kafka:
        while True:
            description = kafka.group.describe(settings.application_id)
            if description.state not in ROUND_STATES:  # in a round the broker does not tell who the members are
                group = overview(description, {})
                departures = [progress(group, str(order.instance), order.name) for order in orders]
                yield departures
                if all(departure.gone for departure in departures):
                    return
            time.sleep(LOOK_INTERVAL_S)


def _line(departure: Departure) -> str:
    from kstreams_worker.group.departures import label  # noqa: PLC0415

    name = label(departure.name, departure.process_id)
    if departure.gone:
        return f"{name}: gone"
    if not departure.told:
        return f"{name}: has not heard yet; {departure.tasks_left} tasks"
    behind = "" if departure.learners_lag_records is None else f", {departure.learners_lag_records:,} records behind"
    return (
        f"{name}: leaving; {departure.tasks_left} tasks to hand over, "
        f"{departure.learners_ready} of {departure.learners} learners ready{behind}"
    )


def _duration_ms(text: str) -> int:
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"--timeout {text!r} is not a time, such as 90s, 10m or 1h")
    return int(match["number"]) * _UNITS_MS[match["unit"]]
