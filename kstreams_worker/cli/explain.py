"""`kstreams-worker explain`: the last round of a live group, and why it ended as it did."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from kstreams_worker.cli.connection import connected
from kstreams_worker.cli.options import ApplicationId, BootstrapServers, ConfigFile, Json, SetValues, group_settings

if TYPE_CHECKING:
    from kstreams_worker.group.events import GroupDescription


def explain(
    *,
    application_id: ApplicationId = None,
    bootstrap_servers: BootstrapServers = None,
    config: ConfigFile = None,
    set_values: SetValues = None,
    as_json: Json = False,
) -> None:
    """Tell the last round of a live group: who moved where and why, who is still learning, what each move waits for.

    It asks the brokers only, so it works from any machine. While a round is on, it waits for its end.
    """
    settings = group_settings(config, set_values, application_id, bootstrap_servers)
    from kstreams_worker.errors import GroupError  # noqa: PLC0415 - `--help` stays fast

    with connected(settings) as kafka:
        group = kafka.group.describe_settled(settings.application_id)
    if not group.members:
        raise GroupError(f"group {group.group_id} has no members, hence no last round: start its workers first")
    if as_json:
        typer.echo(json.dumps(_facts(group), indent=2))
    else:
        typer.echo("\n".join(_lines(group)))


def _facts(group: GroupDescription) -> dict[str, Any]:
    from assignor.explain import report  # noqa: PLC0415
    from kstreams_worker.group.last_round import last_round  # noqa: PLC0415

    told = last_round(group)
    return {
        "group": group.group_id,
        "state": group.state,
        "leader": told.leader,
        "members": len(group.members),
        "unreadable_members": told.unreadable,
        **report(told.result, told.names, told.lags),
    }


def _lines(group: GroupDescription) -> list[str]:
    from assignor.explain import lines  # noqa: PLC0415
    from kstreams_worker.group.last_round import last_round  # noqa: PLC0415

    told = last_round(group)
    head = f"{group.group_id}: {group.state}, {len(group.members)} members, led by {told.leader or 'nobody known'}"
    unreadable = [f"{member} cannot be read; perhaps it is of a later version" for member in told.unreadable]
    return [head, *lines(told.result, told.names, told.lags), *unreadable]
