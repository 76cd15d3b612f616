"""`kstreams-worker run`: the instance, in the foreground."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kstreams_worker.cli.options import (
    ApplicationId,
    BootstrapServers,
    ConfigFile,
    SetValues,
    TopologyReference,
    load_settings,
)


def run(
    topology: TopologyReference,
    *,
    application_id: ApplicationId = None,
    bootstrap_servers: BootstrapServers = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", metavar="N", help="Worker processes.  [env: KSTREAMS_NUM_WORKERS]  [default: 1]"),
    ] = None,
    state_dir: Annotated[
        Path | None,
        typer.Option("--state-dir", metavar="DIRECTORY", help="Where state is kept.  [env: KSTREAMS_STATE_DIR]"),
    ] = None,
    num_standby_tasks: Annotated[
        int | None,
        typer.Option(
            "--num-standby-tasks",
            metavar="N",
            help="Warm copies of each stateful task.  [env: KSTREAMS_NUM_STANDBY_TASKS]  [default: 0]",
        ),
    ] = None,
    processing_guarantee: Annotated[
        str | None,
        typer.Option(
            "--processing-guarantee",
            metavar="NAME",
            help="exactly_once_v2 or at_least_once.  [env: KSTREAMS_PROCESSING_GUARANTEE]  [default: exactly_once_v2]",
        ),
    ] = None,
    http_host: Annotated[
        str | None,
        typer.Option(
            "--http-host",
            metavar="ADDRESS",
            help="Address of the status pages.  [env: KSTREAMS_HTTP_HOST]  [default: 127.0.0.1]",
        ),
    ] = None,
    http_port: Annotated[
        int | None,
        typer.Option(
            "--http-port",
            metavar="PORT",
            help="Serve status pages here; 0: any free port.  [env: KSTREAMS_HTTP_PORT]  [default: none]",
        ),
    ] = None,
    log_format: Annotated[
        str | None,
        typer.Option(
            "--log-format",
            metavar="FORMAT",
            help="auto, console or json.  [env: KSTREAMS_LOG_FORMAT]  [default: auto]",
        ),
    ] = None,
    log_level: Annotated[
        list[str] | None,
        typer.Option(
            "--log-level",
            metavar="[LOGGER=]LEVEL",
            help="debug, info, warning or error; may be repeated.  [env: KSTREAMS_LOG_LEVEL]  [default: info]",
        ),
    ] = None,
    config: ConfigFile = None,
    set_values: SetValues = None,
) -> None:
    """Run an instance of N workers until told to stop.

    SIGTERM or Ctrl-C lets the workers commit and leave the group; a second one forces. The exit code is 0 after an
    orderly stop, 1 after an error, 2 for a mistake in usage, 3 if another instance has taken this one's place.

    Example: kstreams-worker run examples.orders:topology --workers 4 --bootstrap-servers localhost:9092
    --application-id orders
    """
    settings = load_settings(
        config,
        set_values,
        {
            "application.id": application_id,
            "bootstrap.servers": bootstrap_servers,
            "num.workers": workers,
            "state.dir": state_dir,
            "num.standby.tasks": num_standby_tasks,
            "processing.guarantee": processing_guarantee,
            "http.host": http_host,
            "http.port": http_port,
            "log.format": log_format,
            "log.level": ",".join(log_level) if log_level else None,
        },
    )
    from kstreams_worker.runtime.instance import run_instance  # noqa: PLC0415 - `--help` stays fast

    raise typer.Exit(run_instance(settings, topology))
