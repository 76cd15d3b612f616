"""`topology`, `config`, `version`: what would run, with which settings and versions."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
    from kstreams_worker.topology.topology import SubTopology


class TopologyFormat(StrEnum):
    """How to print a topology."""

    TEXT = "text"
    MERMAID = "mermaid"
    JSON = "json"


def topology(
    reference: TopologyReference,
    output: Annotated[
        TopologyFormat, typer.Option("--format", help="text: as Kafka Streams prints it, for existing viewers.")
    ] = TopologyFormat.TEXT,
) -> None:
    """Print a topology without running it."""
    from kstreams_worker.runtime.load import load_topology  # noqa: PLC0415 - `--help` stays fast

    loaded = load_topology(reference)
    match output:
        case TopologyFormat.TEXT:
            typer.echo(loaded.describe().rstrip("\n"))
        case TopologyFormat.MERMAID:
            typer.echo(loaded.mermaid().rstrip("\n"))
        case TopologyFormat.JSON:
            facts = {
                "fingerprint": loaded.fingerprint.hex(),
                "subtopologies": [_subtopology_facts(sub) for sub in loaded.subtopologies],
            }
            typer.echo(json.dumps(facts, indent=2))


def config(
    *,
    application_id: ApplicationId = None,
    bootstrap_servers: BootstrapServers = None,
    file: ConfigFile = None,
    set_values: SetValues = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Also say what each setting is for.")] = False,
    as_json: Json = False,
) -> None:
    """Print the settings in effect, and their sources.

    Secrets are hidden.
    """
    settings = group_settings(file, set_values, application_id, bootstrap_servers)
    lines = settings.describe()
    if as_json:
        facts = {line.name: {"value": line.value, "source": line.source, "about": line.description} for line in lines}
        typer.echo(json.dumps(facts, indent=2))
        return
    width = max(len(f"{line.name}={_text(line.value)}") for line in lines)
    for line in lines:
        typer.echo(f"{f'{line.name}={_text(line.value)}':<{width}}  {line.source}")
        if verbose:
            typer.echo(f"    {line.description}")


def version(as_json: Json = False) -> None:
    """Print our version and those of the libraries used."""
    from kstreams_worker.observe.versions import versions  # noqa: PLC0415 - `--help` stays fast

    found = versions()
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    for name, number in found.items():
        typer.echo(f"{name} {number}")


def version_alone(asked: bool) -> None:
    """What `--version` prints, as other tools do."""
    if asked:
        from kstreams_worker.observe.versions import PACKAGE, package_version  # noqa: PLC0415 - `--help` stays fast

        typer.echo(f"{PACKAGE} {package_version()}")
        raise typer.Exit


def _subtopology_facts(sub: SubTopology) -> dict[str, Any]:
    return {
        "id": sub.id,
        "source_topics": sub.source_topics,
        "repartition_sources": [topic.name for topic in sub.repartition_sources],
        "sink_topics": sub.sink_topics,
        "repartition_sinks": [topic.name for topic in sub.repartition_sinks],
        "stores": [{"name": store.name, "logged": store.logged} for store in sub.stores],
    }


def _text(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
