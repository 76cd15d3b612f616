"""Spark's errors as one line, with the cause that the operator can act on rather than the whole chain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from kstreams_worker.errors import BrokerError, KStreamsError

_KAFKA_ERRORS = "org.apache.kafka.common."
_CAUSES_MAX = 20


@contextmanager
def spark_errors(what: str, by_condition: Mapping[str, type[KStreamsError]] | None = None) -> Iterator[None]:
    """Turns Spark's errors into ours: `<what>: <cause>`.

    BrokerError for what Kafka says, the type in `by_condition` for one of Spark's named conditions, else KStreamsError.
    """
    try:
        yield
    except PySparkException as error:
        kind = (by_condition or {}).get(error.getCondition() or "")
        raise _translated(what, str(getattr(error, "_desc", error)), error, kind) from error
    except Py4JJavaError as error:
        raise _translated(what, str(error.java_exception.toString()), error, None) from error
    except (Py4JError, ConnectionError) as error:
        raise KStreamsError(f"{what}: Spark's Java process has ended; was it stopped, or out of memory?") from error


def _translated(what: str, message: str, error: Exception, kind: type[KStreamsError] | None) -> KStreamsError:
    if kind is not None:
        return kind(f"{what}: {first_line(message)}")
    causes = _java_causes(error) or [message]
    from_kafka = [cause for cause in causes if cause.startswith(_KAFKA_ERRORS)]
    if from_kafka:
        return BrokerError(f"{what}: {first_line(from_kafka[-1])}; check bootstrap.servers and that the brokers are up")
    return KStreamsError(f"{what}: {first_line(causes[-1])}")


def first_line(message: str) -> str:
    """The first line, without the package of a Java class in front and without the full stop."""
    line = next((line.strip() for line in message.splitlines() if line.strip()), "unknown error")
    head, colon, rest = line.partition(": ")
    if colon and "." in head and " " not in head:
        line = f"{head.rpartition('.')[2]}: {rest}"
    return line.rstrip(". ")


def _java_causes(error: Exception) -> list[str]:
    """From the outermost to the innermost."""
    java = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    causes: list[str] = []
    while java is not None and len(causes) < _CAUSES_MAX:
        causes.append(str(java.toString()))
        java = java.getCause()
    return causes
