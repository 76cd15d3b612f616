"""Spark's part: a history of orders, then a steady stream of them, and in the end the verification. One session for all."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from examples.demo.failure import DemoFailed
from examples.demo.settings import INPUTS, DemoSettings
from kstreams_worker.pipeline.access import KafkaAccess
from kstreams_worker.pipeline.generator import GeneratedOrders, OrderShape
from kstreams_worker.pipeline.produce import ProducePlan, Totals, produce, slots_needed
from kstreams_worker.pipeline.report import Report
from kstreams_worker.pipeline.session import local_master, spark_session
from kstreams_worker.pipeline.verify import verify

SPARK_OPTIONS = {
    "spark.driver.memory": "768m",
    # Java's second compiler pays off after minutes; here it would take a third of a small machine from the workers.
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
WINDOW_S = 4.0
"""Of the stream. Fewer windows leave more of a small machine to the workers."""
END_TIMEOUT_S = 30.0


class Feed:
    """`open` first; `close` ends it, whatever it is doing."""

    def __init__(self, settings: DemoSettings) -> None:
        self._settings = settings
        self._closing = ExitStack()
        self._opening = ThreadPoolExecutor(1, "spark-start")
        self._session: Future[SparkSession] | None = None
        self._shape = OrderShape(customers=settings.customers)
        self._stop = threading.Event()
        self._stream: threading.Thread | None = None
        self._totals: Totals | None = None
        self._failure: Exception | None = None
        self.streamed = 0
        """Records of the steady stream that have been written."""

    def open(self) -> None:
        """Start Spark, without waiting for it."""
        master = local_master(slots_needed(self._settings.records_per_second))
        context = spark_session(master, SPARK_OPTIONS)
        self._session = self._opening.submit(lambda: self._closing.enter_context(context))

    def wait_until_open(self, timeout_s: float) -> None:
        """Raises DemoFailed."""
        assert self._session is not None
        try:
            self._session.result(timeout_s)
        except TimeoutError:
            raise DemoFailed(f"Spark did not start within {timeout_s:g} s") from None

    def write_history(self, access: KafkaAccess) -> Totals:
        """As fast as it goes."""
        plan = ProducePlan(INPUTS[0], records=self._settings.history_records)
        return produce(self._spark, self._orders, access, plan)

    def start_stream(self, access: KafkaAccess) -> None:
        """Write on at the set rate, in a thread, until `stop_stream`."""
        settings = self._settings
        plan = ProducePlan(
            INPUTS[0], rate=settings.records_per_second, first_index=settings.history_records, window_s=WINDOW_S
        )

        def stream() -> None:
            try:
                self._totals = produce(
                    self._spark, self._orders, access, plan, stop=self._stop, on_progress=self._progressed
                )
            except Exception as error:  # told by `check`, in the main thread
                self._failure = error

        self._stream = InheritableThread(target=stream, name="spark-stream", daemon=True)
        self._stream.start()

    def check(self) -> None:
        """Raises DemoFailed if the stream has ended by itself."""
        if self._failure is not None:
            raise DemoFailed(f"Spark stopped writing: {self._failure}") from self._failure

    def stop_stream(self) -> Totals:
        """Finish what is being written; returns what the stream has written. Raises DemoFailed."""
        self._stop.set()
        assert self._stream is not None
        self._stream.join(END_TIMEOUT_S)
        self.check()
        if self._totals is None:
            raise DemoFailed(f"Spark did not stop writing within {END_TIMEOUT_S:g} s")
        return self._totals

    def verify(self, access: KafkaAccess) -> Report:
        """Recompute the outputs from the input and compare."""
        return verify(self._spark, "orders", access)

    def close(self) -> None:
        """End Spark and its Java process."""
        self._stop.set()
        self._opening.shutdown(wait=True)
        if self._stream is not None:
            self._stream.join(END_TIMEOUT_S)
        self._closing.close()

    @property
    def _spark(self) -> SparkSession:
        assert self._session is not None
        return self._session.result()

    @property
    def _orders(self) -> GeneratedOrders:
        return GeneratedOrders(self._spark, self._shape)

    def _progressed(self, records: int) -> None:
        self.streamed = records
