"""The command line. Commands import what they need when they run, so that `--help` answers at once.

Every error is one line on standard error that says what to do next (wrong settings: one line each), and an exit code: 1 for
an error, 2 for a mistake in usage, 3 when another instance has taken our place. Tracebacks are shown on request, by
KSTREAMS_DEBUG=1.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from types import FrameType
from typing import Annotated

import typer

from kstreams_worker.cli import (
    broker,
    doctor,
    explain,
    group,
    lag,
    pipeline,
    reset,
    run,
    scale_down,
    show,
    simulate,
    tasks,
)
from kstreams_worker.errors import KStreamsError, SettingsError

app = typer.Typer(
    name="kstreams-worker",
    help="Streams workers on Kafka: scale, swap and upgrade them without stopping the processing.",
    epilog="Settings come from flags, then the environment (KSTREAMS_...), then the file of --config.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=show.version_alone, help="Print our version and exit.")
    ] = False,
) -> None:
    """For all commands."""


app.command("run")(run.run)
app.command("topology")(show.topology)
app.command("config")(show.config)
app.command("version")(show.version)
app.command("tasks")(tasks.tasks)
app.command("explain")(explain.explain)
app.command("scale-down")(scale_down.scale_down)
app.command("lag")(lag.lag)
app.command("reset")(reset.reset)
app.command("doctor")(doctor.doctor)
app.command("simulate")(simulate.simulate)
app.add_typer(group.app)
app.add_typer(broker.app)
app.add_typer(pipeline.app)


def main() -> None:
    """Entry point of the command `kstreams-worker`."""
    if os.getpid() == 1:
        # In a container. The kernel drops signals that process 1 has no handler for, and there is none until workers run.
        signal.signal(signal.SIGTERM, _end_by_signal)
    try:
        app()
    except SettingsError as error:
        _end("\n".join(f"error: {line}" for line in str(error).splitlines()), error.exit_code)
    except KStreamsError as error:
        _end(f"error: {error}", error.exit_code)
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{frame.filename}:{frame.lineno}"
        _end(
            f"error: unexpected {type(error).__name__} at {place}: {error}; "
            "run again with KSTREAMS_DEBUG=1 for the traceback, and report it",
            1,
        )


def _end_by_signal(number: int, _frame: FrameType | None) -> None:
    os._exit(128 + number)  # not by an exception: the topology's module may be loading, and catch it


def _end(lines: str, exit_code: int) -> None:
    if os.environ.get("KSTREAMS_DEBUG"):
        traceback.print_exc()
    print(lines, file=sys.stderr)
    sys.exit(exit_code)
