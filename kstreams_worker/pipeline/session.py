"""One Spark session for the length of a `with` block, on this machine or on a cluster.

Spark's driver is a Java process of its own. Here it gets its own session of the operating system, so that a Ctrl-C or a
SIGTERM for our process group is ours to answer: it ends with its standard input, which is ours. What it prints goes to a
file, not to the user.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from py4j.java_gateway import JavaGateway
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from kstreams_worker.devbroker.jars import install_jars
from kstreams_worker.devbroker.java import require_java
from kstreams_worker.errors import KStreamsError, UsageError

APPLICATION_NAME = "kstreams-worker"
LOCAL_MASTER = "local[*]"

_STOP_TIMEOUT_S = 10.0
_LOG_LINES_SHOWN = 15
_LOG_CONFIGURATION = Path(__file__).with_name("log4j2.properties")


def local_master(slots: int) -> str:
    """A master on this machine with a slot for each processor, but not fewer than `slots`."""
    return f"local[{max(slots, len(os.sched_getaffinity(0)))}]"


def is_local(master: str) -> bool:
    """Whether a master URL means this machine."""
    return master == "local" or master.startswith("local[")


@contextmanager
def spark_session(master: str = LOCAL_MASTER, options: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A session with the Kafka connector, and nothing left of it afterwards.

    `options` are Spark's own (`spark...`) and win over ours. Raises KStreamsError if Java, Maven or PySpark's driver
    fails, UsageError if this process has a Spark session already or an option is not Spark's.
    """
    if SparkContext._active_spark_context is not None:
        raise UsageError("this process has a Spark session already; pass that one on instead of opening a second")
    foreign = sorted(name for name in options or {} if not name.startswith("spark."))
    if foreign:
        raise UsageError(f"not an option of Spark: {', '.join(foreign)}; they all begin with 'spark.'")
    conf = SparkConf(loadDefaults=False)
    conf.setAll(list({**_options(master), **(options or {})}.items()))
    with tempfile.TemporaryFile() as log:
        gateway = _launch_driver(conf, log)
        session: SparkSession | None = None
        try:
            session = _start_session(conf, gateway, log)
            yield session
        finally:
            _stop(session, gateway)


def _options(master: str) -> dict[str, str]:
    require_java()
    options = {
        "spark.master": master,
        "spark.app.name": APPLICATION_NAME,
        "spark.jars": ",".join(str(jar) for jar in sorted(install_jars("spark").glob("*.jar"))),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": f'"-Dlog4j2.configurationFile={_LOG_CONFIGURATION.as_uri()}"',
        # A second attempt at a task would write its records twice.
        "spark.task.maxFailures": "1",
        "spark.speculation": "false",
    }
    if is_local(master):
        os.environ["PYSPARK_PYTHON"] = sys.executable
        options |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # The default of 200 is meant for a cluster; here each one more is only a task to start.
            "spark.sql.shuffle.partitions": str(2 * len(os.sched_getaffinity(0))),
        }
    return options


def _launch_driver(conf: SparkConf, log: IO[bytes]) -> JavaGateway:
    try:
        return launch_gateway(conf, {"stdout": log, "stderr": log, "start_new_session": True})
    except PySparkException as error:
        raise KStreamsError(f"Spark's Java process did not start:\n{_tail(log)}") from error


def _start_session(conf: SparkConf, gateway: JavaGateway, log: IO[bytes]) -> SparkSession:
    in_main_thread = threading.current_thread() is threading.main_thread()
    on_interrupt = signal.getsignal(signal.SIGINT) if in_main_thread else None
    try:
        context = SparkContext(conf=conf, gateway=gateway)
    except Exception as error:
        raise KStreamsError(f"Spark did not start ({str(error).splitlines()[0]}):\n{_tail(log)}") from error
    finally:
        # Spark answers Ctrl-C by cancelling its jobs; whoever opened the session decides that.
        if in_main_thread:
            signal.signal(signal.SIGINT, on_interrupt)
    return SparkSession(context)


def _stop(session: SparkSession | None, gateway: JavaGateway) -> None:
    if session is not None:
        # A call that a signal cut short leaves a connection that answers the wrong question; the Java process must end
        # all the same.
        with suppress(Exception):
            session.stop()
    # PySpark keeps the gateway for the process's next session, and with it the Java process.
    SparkContext._gateway = None
    SparkContext._jvm = None
    gateway.shutdown()
    gateway.close()
    process: subprocess.Popen[bytes] = gateway.proc
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _tail(log: IO[bytes]) -> str:
    log.seek(0)
    return "\n".join(log.read().decode(errors="replace").splitlines()[-_LOG_LINES_SHOWN:])
