"""`kstreams-worker pipeline`: PySpark jobs that fill input topics and verify outputs."""

from __future__ import annotations

import importlib.util
import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from kstreams_worker.cli.options import BootstrapServers, ConfigFile, Json, SetValues, load_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kstreams_worker.pipeline.access import KafkaAccess
    from kstreams_worker.pipeline.files import FileRecords
    from kstreams_worker.pipeline.generator import GeneratedOrders

app = typer.Typer(
    name="pipeline",
    help="PySpark jobs: fill an input topic, verify outputs. On this machine, or on a cluster by --master.",
    no_args_is_help=True,
)

_CLIENT_NAME = "kstreams-pipeline"


class Format(StrEnum):
    """Of files."""

    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


class Guarantee(StrEnum):
    """What a topology promises."""

    EXACTLY_ONCE = "exactly_once_v2"
    AT_LEAST_ONCE = "at_least_once"


Master = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="Spark's master.  [default: all processors of this machine]"),
]
SparkOptions = Annotated[
    list[str] | None,
    typer.Option("--spark-option", metavar="NAME=VALUE", help="An option of Spark (spark...); may be repeated."),
]
KafkaOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--kafka-option",
        metavar="NAME=VALUE",
        help="An option of Spark's Kafka clients, in the Java client's names; may be repeated.",
    ),
]


@app.command("produce")
def produce_command(
    *,
    topic: Annotated[str, typer.Option("--topic", metavar="TOPIC", help="Topic to write to.")] = "orders",
    records: Annotated[
        int | None,
        typer.Option("--records", metavar="N", min=0, help="How many.  [default: no end, or all of the files]"),
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", metavar="N", help="Records a second.  [default: as fast as it goes]")
    ] = None,
    duration: Annotated[
        float | None, typer.Option("--duration", metavar="SECONDS", help="End after this time.  [default: no end]")
    ] = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", metavar="N", min=1, help="Create the topic, if missing, with so many.")
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, help="The same seed and shape make the same orders.")
    ] = 0,
    customers: Annotated[int, typer.Option("--customers", metavar="N", min=1, help="Different customers.")] = 10_000,
    products: Annotated[int, typer.Option("--products", metavar="N", min=1, help="Different products.")] = 500,
    first_index: Annotated[
        int, typer.Option("--first-index", metavar="N", min=0, help="Go on from this record, as 'next_index' told.")
    ] = 0,
    from_files: Annotated[
        str | None,
        typer.Option("--from-files", metavar="PATH", help="Write what these files hold: a file, directory or pattern."),
    ] = None,
    file_format: Annotated[
        Format, typer.Option("--format", help="Of the files; json: one object a line.")
    ] = Format.JSON,
    key_field: Annotated[
        str, typer.Option("--key-field", metavar="FIELD", help="Field of the files that is the records' key.")
    ] = "customer",
    bootstrap_servers: BootstrapServers = None,
    config: ConfigFile = None,
    set_values: SetValues = None,
    kafka_options: KafkaOptions = None,
    master: Master = None,
    spark_options: SparkOptions = None,
    as_json: Json = False,
) -> None:
    """Write orders to a topic: made from a seed, or read from files.

    Keys are customers, values JSON: {order_id, customer, product, amount (cents), event_time_ms}. SIGTERM and Ctrl-C end
    it cleanly: what was begun is written, then the totals are printed.
    """
    _require_pyspark()
    from kstreams_worker.errors import UsageError  # noqa: PLC0415 - `--help` stays fast
    from kstreams_worker.pipeline import produce as job  # noqa: PLC0415
    from kstreams_worker.pipeline.session import local_master, spark_session  # noqa: PLC0415

    if from_files is None and records is None and rate is None and duration is None:
        raise UsageError("this would write without end: give --records, --duration, or a --rate to go on at")
    plan = job.ProducePlan(topic, records, rate, duration, first_index)
    access = _access(config, set_values, bootstrap_servers, kafka_options)
    job.ensure_topic(access, topic, partitions)
    options = _pairs(spark_options, "--spark-option")
    with ExitStack() as closing:
        spark = closing.enter_context(spark_session(master or local_master(job.slots_needed(rate)), options))
        source: GeneratedOrders | FileRecords
        if from_files is None:
            source = _generated(spark, seed, customers, products)
        else:
            source = _files(spark, from_files, file_format, key_field)
            closing.callback(source.close)
        stop = closing.enter_context(_stop_on_signals())
        progress = closing.enter_context(_progress_line(topic))
        totals = job.produce(spark, source, access, plan, stop=stop, on_progress=progress)
    if as_json:
        typer.echo(json.dumps(totals.to_dict()))
    else:
        typer.echo(
            f"wrote {totals.records:,} records to {topic} in {totals.elapsed_s:.1f} s ({totals.records_per_s:,.0f}/s)"
            f"{', stopped' if totals.stopped else ''}; go on with --first-index {totals.next_index}"
        )


@app.command("verify")
def verify_command(
    *,
    check: Annotated[
        str, typer.Option("--check", metavar="NAME", help="orders (examples/orders.py), or count (records per key).")
    ] = "orders",
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="NAME=TOPIC",
            help="A topic that has another name than in the check (orders: orders, large-orders, customer-totals, "
            "product-revenue; count: input, output); may be repeated.",
        ),
    ] = None,
    parameters: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter",
            metavar="NAME=VALUE",
            help="Of the check (orders: large_amount, 10000; count: format, long or json); may be repeated.",
        ),
    ] = None,
    guarantee: Annotated[
        Guarantee, typer.Option("--guarantee", help="at_least_once: doubles are counted, and allowed.")
    ] = Guarantee.EXACTLY_ONCE,
    examples: Annotated[
        int, typer.Option("--examples", metavar="N", min=0, help="Examples shown, per output and kind of fault.")
    ] = 3,
    wait_for_group: Annotated[
        str | None,
        typer.Option("--wait-for-group", metavar="NAME", help="First wait until this application.id has caught up."),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="How long --wait-for-group waits.")
    ] = 300.0,
    bootstrap_servers: BootstrapServers = None,
    config: ConfigFile = None,
    set_values: SetValues = None,
    kafka_options: KafkaOptions = None,
    master: Master = None,
    spark_options: SparkOptions = None,
    as_json: Json = False,
) -> None:
    """Recompute what a topology should have written, from its input, and compare.

    Tells missing, extra, doubled and wrong records apart, with examples. The exit code is 0 only if the outputs are what
    the input demands, 1 if they differ. The topology should have caught up, and its input rest.
    """
    _require_pyspark()
    from rich.console import Console  # noqa: PLC0415 - `--help` stays fast

    from kstreams_worker.pipeline.checks import check_named  # noqa: PLC0415
    from kstreams_worker.pipeline.session import LOCAL_MASTER, spark_session  # noqa: PLC0415
    from kstreams_worker.pipeline.verify import verify  # noqa: PLC0415

    named = check_named(check)
    names = named.topics(_pairs(topics, "--topic"))
    given = named.with_defaults(_pairs(parameters, "--parameter"))
    access = _access(config, set_values, bootstrap_servers, kafka_options)
    if wait_for_group is not None:
        from kstreams_worker.pipeline.caught_up import wait_until_caught_up  # noqa: PLC0415

        wait_until_caught_up(access, wait_for_group, [names[named.input_topic]], timeout_s=timeout)
    with spark_session(master or LOCAL_MASTER, _pairs(spark_options, "--spark-option")) as spark:
        report = verify(
            spark, named, access, topics=names, parameters=given, guarantee=guarantee.value, examples_max=examples
        )
    if as_json:
        typer.echo(report.to_json())
    else:
        Console().print(report)
    raise typer.Exit(0 if report.ok else 1)


def _require_pyspark() -> None:
    from kstreams_worker.errors import UsageError  # noqa: PLC0415 - `--help` stays fast

    if importlib.util.find_spec("pyspark") is None:
        raise UsageError("the pipeline needs PySpark: pip install 'kstreams-worker[spark]'")


def _access(
    config: Path | None, set_values: list[str] | None, bootstrap_servers: str | None, kafka_options: list[str] | None
) -> KafkaAccess:
    from kstreams_worker.pipeline.access import KafkaAccess  # noqa: PLC0415 - `--help` stays fast

    settings = load_settings(
        config, set_values, {"application.id": _CLIENT_NAME, "bootstrap.servers": bootstrap_servers}
    )
    return KafkaAccess.of(settings, _pairs(kafka_options, "--kafka-option"))


def _generated(spark: SparkSession, seed: int, customers: int, products: int) -> GeneratedOrders:
    from kstreams_worker.pipeline.generator import GeneratedOrders, OrderShape  # noqa: PLC0415 - `--help` stays fast

    return GeneratedOrders(spark, OrderShape(seed=seed, customers=customers, products=products))


def _files(spark: SparkSession, path: str, file_format: Format, key_field: str) -> FileRecords:
    from kstreams_worker.pipeline.files import FileRecords  # noqa: PLC0415 - `--help` stays fast

    return FileRecords(spark, path, file_format.value, key_field)


@contextmanager
def _stop_on_signals() -> Iterator[threading.Event]:
    """An event that the first SIGTERM or Ctrl-C sets; the second ends the process as ever."""
    stop = threading.Event()
    previous = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def handle(_number: int, _frame: FrameType | None) -> None:
        restore()
        # In a thread: the lock that `set` needs may be held by what this handler interrupted.
        threading.Thread(target=stop.set, name="stop").start()

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    for number in previous:
        signal.signal(number, handle)
    try:
        yield stop
    finally:
        restore()


@contextmanager
def _progress_line(topic: str) -> Iterator[Callable[[int], None]]:
    """Shows on a terminal, on standard error, how much is written."""
    from rich.console import Console  # noqa: PLC0415 - `--help` stays fast

    with Console(stderr=True).status(f"writing to {topic}") as status:
        yield lambda records: status.update(f"writing to {topic}: {records:,} records")


def _pairs(given: list[str] | None, option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for pair in given or []:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise typer.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint=option)
        pairs[name] = value
    return pairs
