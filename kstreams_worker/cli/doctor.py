"""`kstreams-worker doctor`: whether an application can run from here."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from kstreams_worker.cli.options import ApplicationId, BootstrapServers, ConfigFile, Json, SetValues, group_settings

if TYPE_CHECKING:
    from kstreams_worker.runtime.findings import Finding

STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(
    topology: Annotated[
        str | None,
        typer.Argument(metavar="[MODULE:ATTRIBUTE]", help="A topology; its topics are looked at too."),
    ] = None,
    *,
    application_id: ApplicationId = None,
    bootstrap_servers: BootstrapServers = None,
    config: ConfigFile = None,
    set_values: SetValues = None,
    as_json: Json = False,
) -> None:
    """Look whether an application can run from here: brokers, rights, topics, clock, state directory, disk.

    Nothing is created or changed. Each line says ok, warn or fail, and what to do next. The exit code is 1 if one fails.
    """
    settings = group_settings(config, set_values, application_id, bootstrap_servers)
    from kstreams_worker.runtime.doctor import examine  # noqa: PLC0415 - `--help` stays fast
    from kstreams_worker.runtime.findings import Level  # noqa: PLC0415

    loaded = None
    if topology is not None:
        from kstreams_worker.runtime.load import load_topology  # noqa: PLC0415

        loaded = load_topology(topology)
    findings = []
    for finding in examine(settings, loaded):
        findings.append(finding)
        if not as_json:
            _print(finding)
    failed = any(finding.level is Level.FAIL for finding in findings)
    if as_json:
        typer.echo(json.dumps({"ok": not failed, "findings": [asdict(each) for each in findings]}, indent=2))
    raise typer.Exit(1 if failed else 0)


def _print(finding: Finding) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    line = Text.assemble((f"{finding.level:4}", STYLES[finding.level]), f"  {finding.check}: {finding.text}")
    if finding.next_step:
        line.append(f"\n      {finding.next_step}", style="dim")
    Console(highlight=False, soft_wrap=True).print(line)
