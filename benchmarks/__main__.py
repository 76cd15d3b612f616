"""`python -m benchmarks`: see `--help`, and README.md for what the figures mean."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.count import VARIANTS, CountOptions, count
from benchmarks.gaps import OURS, SCENARIOS, GapOptions, gaps
from benchmarks.latency import LatencyOptions, latency
from benchmarks.peers import PEERS, kafka_streams_gaps
from benchmarks.report import Report
from kstreams_worker.errors import KStreamsError

app = typer.Typer(
    help="Measure kstreams-worker on this machine, against a real Kafka. Without a command: everything.",
    invoke_without_command=True,
    add_completion=False,
)


class VariantName(StrEnum):
    """Of the command line, in the order of `VARIANTS`."""

    EXACTLY_ONCE = "exactly-once"
    EVERY_UPDATE = "every-update"
    AT_LEAST_ONCE = "at-least-once"


class PeerName(StrEnum):
    """Of the command line, as the keys of `PEERS`."""

    KAFKA_STREAMS = "kafka-streams"
    QUIX = "quix"
    FAUST = "faust"


class ScenarioName(StrEnum):
    """Of the command line, in the order of `SCENARIOS`."""

    SCALE_UP = "scale-up"
    SCALE_DOWN = "scale-down"
    HANDOVER = "handover"
    KILL_WITH_STANDBY = "kill-with-standby"
    KILL = "kill"
    HOST_LOSS = "host-loss"


class GuaranteeName(StrEnum):
    """Of the command line, as the setting's values."""

    EXACTLY_ONCE = "exactly_once_v2"
    AT_LEAST_ONCE = "at_least_once"


Servers = Annotated[
    str | None,
    typer.Option("--bootstrap-servers", metavar="HOST:PORT", help="An existing Kafka.  [default: one is started]"),
]
JsonFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Append the results as JSON lines.")]
Keys = Annotated[int, typer.Option("--keys", min=1, help="Distinct keys.")]
Repetitions = Annotated[int, typer.Option("--repetitions", min=1, help="Runs of each kind.")]
CommitInterval = Annotated[int, typer.Option("--commit-interval-ms", min=1, help="commit.interval.ms.")]


@app.callback()
def everything(context: typer.Context, json_file: JsonFile = None) -> None:
    """Measure kstreams-worker on this machine, against a real Kafka. Without a command: everything."""
    if context.invoked_subcommand is None:
        count_command(json_file=json_file)
        latency_command(json_file=json_file)
        gaps_command(json_file=json_file)


@app.command("count")
def count_command(
    *,
    records: Annotated[int, typer.Option("--records", min=1, help="Records to count.")] = 2_000_000,
    keys: Keys = 100_000,
    repetitions: Repetitions = 5,
    commit_interval_ms: CommitInterval = 500,
    variants: Annotated[
        list[VariantName] | None, typer.Option("--variant", help="What to measure; may be repeated.  [default: all]")
    ] = None,
    peers: Annotated[
        list[PeerName] | None, typer.Option("--peer", help="Another program; fetched on demand; may be repeated.")
    ] = None,
    all_peers: Annotated[bool, typer.Option("--peers", help="All of them.")] = False,
    time_limit_s: Annotated[float, typer.Option("--time-limit-s", min=1, help="For one run.")] = 60.0,
    servers: Servers = None,
    json_file: JsonFile = None,
) -> None:
    """Stateful count with a changelog and RocksDB: records/s and CPU, against a hand-written loop."""
    named = dict(zip(VariantName, VARIANTS, strict=True))
    chosen = [named[name] for name in variants or VariantName]
    options = CountOptions(records, keys, repetitions, commit_interval_ms, time_limit_s)
    invited = [PEERS[name]() for name in PeerName if all_peers or name in (peers or ())]
    count(Report(json_file), options, chosen, invited, servers)


@app.command("latency")
def latency_command(
    *,
    rate_per_s: Annotated[int, typer.Option("--rate", min=1, help="Records each second.")] = 20_000,
    keys: Keys = 100_000,
    repetitions: Repetitions = 1,
    warm_up_s: Annotated[float, typer.Option("--warm-up-s", min=0, help="Not measured.")] = 10.0,
    measured_s: Annotated[float, typer.Option("--measured-s", min=1, help="Measured.")] = 30.0,
    commit_intervals_ms: Annotated[
        list[int] | None,
        typer.Option("--commit-interval-ms", help="Of exactly once; may be repeated.  [default: 500 and 100]"),
    ] = None,
    servers: Servers = None,
    json_file: JsonFile = None,
) -> None:
    """End-to-end latency at a steady rate, every update forwarded at once, both guarantees."""
    intervals = commit_intervals_ms or [500, 100]
    options = LatencyOptions(rate_per_s, keys, repetitions, warm_up_s, measured_s, intervals)
    latency(Report(json_file), options, servers)


@app.command("gaps")
def gaps_command(
    *,
    rate_per_s: Annotated[int, typer.Option("--rate", min=1, help="Records each second.")] = 20_000,
    keys: Keys = 1_000_000,
    history: Annotated[int, typer.Option("--history", min=0, help="Records counted before.")] = 2_000_000,
    repetitions: Repetitions = 3,
    scenarios: Annotated[
        list[ScenarioName] | None, typer.Option("--scenario", help="What to do; may be repeated.  [default: all]")
    ] = None,
    undisturbed_s: Annotated[float, typer.Option("--undisturbed-s", min=1, help="For comparison.")] = 5.0,
    commit_interval_ms: CommitInterval = 100,
    guarantee: Annotated[GuaranteeName, typer.Option("--guarantee", help="processing.guarantee.")] = (
        GuaranteeName.EXACTLY_ONCE
    ),
    with_kafka_streams: Annotated[
        bool, typer.Option("--kafka-streams", help="Kafka Streams, too, where it has the scenario.")
    ] = False,
    servers: Servers = None,
    json_file: JsonFile = None,
) -> None:
    """Silence of an output partition when an instance joins or leaves, or a worker or an instance is killed."""
    named = dict(zip(ScenarioName, SCENARIOS, strict=True))
    chosen = [named[name] for name in scenarios or ScenarioName]
    runners = [OURS, *([kafka_streams_gaps()] if with_kafka_streams else ())]
    options = GapOptions(
        rate_per_s, keys, history, repetitions, undisturbed_s, commit_interval_ms, guarantee.value, chosen, runners
    )
    gaps(Report(json_file), options, servers)


def main() -> None:
    """Run the command line; errors are told in a line."""
    try:
        app()
    except KStreamsError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
