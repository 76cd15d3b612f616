"""`python -m examples.demo`: see `--help`. Exit code 0 only if every step worked and the outputs are equal."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from examples.demo.failure import Interrupted
from examples.demo.play import Play
from examples.demo.settings import DemoSettings
from examples.demo.timeline import Timeline
from kstreams_worker.errors import KStreamsError

LOG_LINES_SHOWN = 12
LOG_LINE_CHARACTERS_MAX = 300
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def demo(
    *,
    records_per_second: Annotated[float, typer.Option(min=100, help="Orders that Spark writes, each second.")] = 2000,
    history: Annotated[int, typer.Option(min=0, help="Orders that are there before the instances start.")] = 300_000,
    customers: Annotated[int, typer.Option(min=1, help="Keys of the larger state.")] = 100_000,
    standbys: Annotated[int, typer.Option(min=0, max=1, help="Warm copies of each task, for the kill -9.")] = 1,
    commit_interval_ms: Annotated[int, typer.Option(min=10, help="commit.interval.ms of the instances.")] = 200,
    steady_seconds: Annotated[float, typer.Option(min=1, help="Measured without any disturbance.")] = 10,
    keep: Annotated[bool, typer.Option("--keep", help="Leave logs, state and Kafka's data behind.")] = False,
) -> None:
    """Kafka, Spark and kstreams-worker on this machine: scale up, kill -9, close, and a proof that nothing was lost.

    Takes about three minutes. Everything it starts ends with it; Ctrl-C ends it early.
    """
    for number in STOP_SIGNALS:
        signal.signal(number, _interrupt)
    directory = Path(tempfile.mkdtemp(prefix="kstreams-demo-"))
    settings = DemoSettings(
        records_per_second, history, customers, standbys, commit_interval_ms, steady_seconds, directory, keep
    )
    timeline = Timeline()
    play = Play(settings, timeline)
    failed = True
    try:
        with play:
            report = play.perform()
        failed = not report.ok
        exit_code = int(failed)
    except KStreamsError as error:
        _show_failure(error, play, timeline)
        exit_code = error.exit_code
    except Exception as error:
        timeline.console.print_exception()
        _show_failure(error, play, timeline)
        exit_code = 1
    except Interrupted as interrupted:
        timeline.say(f"interrupted ({signal.Signals(interrupted.signal_number).name}); everything is ended")
        exit_code, failed = 128 + interrupted.signal_number, False
    if keep or failed:
        timeline.say(f"logs{', state and data' if keep else ''} are in {directory}")
    _clean(directory, keep=keep, keep_logs=failed)
    if exit_code == 0:
        timeline.say(f"[bold green]the demo is over, after {timeline.seconds:.0f} s: nothing lost, nothing doubled")
    sys.exit(exit_code)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    # One is enough: what it ends takes a few seconds, and a second one would only break off the ending.
    for other in STOP_SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    raise Interrupted(number)


def _show_failure(error: Exception, play: Play, timeline: Timeline) -> None:
    timeline.rule("Failed")
    for instance in play.instances:
        timeline.say(f"end of the log of {instance.name}:")
        for line in list(instance.log_lines())[-LOG_LINES_SHOWN:]:
            shown = line if len(line) <= LOG_LINE_CHARACTERS_MAX else f"{line[: LOG_LINE_CHARACTERS_MAX - 1]}…"
            timeline.console.print(shown, markup=False, soft_wrap=True)
    timeline.say(f"error: {error}", style="bold red")


def _clean(directory: Path, *, keep: bool, keep_logs: bool) -> None:
    if keep:
        return
    if not keep_logs:
        shutil.rmtree(directory, ignore_errors=True)
    for state in directory.glob("*/state"):
        shutil.rmtree(state, ignore_errors=True)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(demo)
    app()
