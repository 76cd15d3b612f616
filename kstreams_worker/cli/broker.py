"""`kstreams-worker broker`: a real Kafka for development, without Docker."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kstreams_worker.devbroker.detached import BrokerStatus

app = typer.Typer(
    name="broker",
    help="Run a real Kafka for development, from its published jars: no Docker, no installation.",
    no_args_is_help=True,
)

DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", metavar="DIRECTORY", help="Where the cluster lives.  [default: one in your home]"),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


@app.command()
def install() -> None:
    """Fetch the jars of the broker and of Spark's Kafka connector (once; later calls do nothing)."""
    from kstreams_worker.devbroker.class_archive import install_class_archive  # noqa: PLC0415 - `--help` stays fast
    from kstreams_worker.devbroker.jars import install_jars  # noqa: PLC0415

    typer.echo(f"broker jars: {install_jars('broker')}")
    typer.echo(f"spark jars: {install_jars('spark')}")
    typer.echo(f"class archive: {install_class_archive()}")


@app.command()
def start(
    *,
    nodes: Annotated[
        int | None, typer.Option("--nodes", metavar="N", min=1, help="Nodes of a new cluster.  [default: 1]")
    ] = None,
    data_dir: DataDir = None,
    port: Annotated[
        int | None,
        typer.Option("--port", metavar="PORT", min=1, max=65535, help="Of the first node.  [default: a free one]"),
    ] = None,
    heap_mb: Annotated[int, typer.Option("--heap-mb", metavar="MB", min=128, help="Java heap of each node.")] = 512,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME=VALUE", help="A server property of Kafka; may be repeated."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Start a cluster in the background, wait until it answers, and print its bootstrap.servers.

    Its data are kept: started again, it goes on where it was. A cluster that runs already is left as it is.
    """
    from kstreams_worker.devbroker import detached  # noqa: PLC0415 - `--help` stays fast

    status = detached.start(
        data_dir or detached.default_data_dir(), nodes, port, _parse_properties(properties or []), heap_mb=heap_mb
    )
    if as_json:
        _print_json(status)
        return
    typer.echo(f"bootstrap.servers={status.bootstrap_servers}")
    typer.echo(
        f"{len(status.nodes)} node(s), data in {status.data_dir}; 'kstreams-worker broker stop' ends it", err=True
    )


@app.command()
def stop(
    data_dir: DataDir = None,
    delete_data: Annotated[
        bool, typer.Option("--delete-data", help="Also delete the cluster's topics and data.")
    ] = False,
) -> None:
    """Stop the cluster. Nothing happens if it does not run."""
    from kstreams_worker.devbroker import detached  # noqa: PLC0415 - `--help` stays fast

    directory = data_dir or detached.default_data_dir()
    was_running = detached.stop(directory, delete_data=delete_data)
    typer.echo("stopped" if was_running else f"no broker runs in {directory}", err=True)


@app.command()
def status(data_dir: DataDir = None, as_json: Json = False) -> None:
    """Show whether the cluster runs and answers. The exit code is 0 only if all its nodes do."""
    from kstreams_worker.devbroker import detached  # noqa: PLC0415 - `--help` stays fast

    found = detached.status(data_dir or detached.default_data_dir())
    if as_json:
        _print_json(found)
    elif not found.nodes:
        typer.echo(f"no broker in {found.data_dir}; 'kstreams-worker broker start' makes one", err=True)
    else:
        for node in found.nodes:
            process = f"  pid {node.pid}" if node.pid else ""
            typer.echo(f"node {node.node_id}  {node.address}  {node.state}{process}")
    raise typer.Exit(0 if found.is_ready else 1)


def _parse_properties(pairs: list[str]) -> dict[str, str | int]:
    properties: dict[str, str | int] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise typer.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint="--property")
        properties[name] = value
    return properties


def _print_json(status: BrokerStatus) -> None:
    typer.echo(
        json.dumps(
            {
                "ready": status.is_ready,
                "bootstrap_servers": status.bootstrap_servers,
                "data_dir": str(status.data_dir),
                "nodes": [asdict(node) for node in status.nodes],
            }
        )
    )
