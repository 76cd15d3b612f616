"""Options that several commands share, and how they become settings.

Each option that stands for a setting names its environment variable in the help. The variable is read with the other
settings, not here, so that `kstreams-worker config` can tell a flag from a variable.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from kstreams_worker.config import Settings

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", envvar="KSTREAMS_CONFIG", help="Settings file, .toml or .properties."),
]
SetValues = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any setting, by its dotted name; may be repeated."),
]
ApplicationId = Annotated[
    str | None,
    typer.Option("--application-id", metavar="NAME", help="Name of the application.  [env: KSTREAMS_APPLICATION_ID]"),
]
BootstrapServers = Annotated[
    str | None,
    typer.Option("--bootstrap-servers", metavar="HOST:PORT,...", help="Brokers.  [env: KSTREAMS_BOOTSTRAP_SERVERS]"),
]
TopologyReference = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:ATTRIBUTE", help="A topology, or a function that returns one, such as examples.orders:topology."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def load_settings(file: Path | None, set_values: list[str] | None, flags: dict[str, Any]) -> Settings:
    """Settings from `--config`, `--set`, the environment and the flags given (dotted name: value; None: not given).

    Raises SettingsError, also when a setting is given by `--set` and by its own flag.
    """
    from kstreams_worker.config import Settings  # noqa: PLC0415 - `--help` stays fast
    from kstreams_worker.errors import SettingsError  # noqa: PLC0415

    overrides = {name: value for name, value in flags.items() if value is not None}
    for pair in set_values or []:
        name, separator, value = pair.partition("=")
        if not (separator and name.strip()):
            raise SettingsError(f"--set {pair!r} is not NAME=VALUE, such as --set num.workers=2")
        if name.strip() in overrides:
            raise SettingsError(f"{name.strip()} is given twice on the command line; keep one")
        overrides[name.strip()] = value.strip()
    return Settings.load(file, overrides=overrides)


def group_settings(
    file: Path | None, set_values: list[str] | None, application_id: str | None, bootstrap_servers: str | None
) -> Settings:
    """The same for a command that has flags for the application and its brokers."""
    return load_settings(file, set_values, {"application.id": application_id, "bootstrap.servers": bootstrap_servers})
