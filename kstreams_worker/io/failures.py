"""What librdkafka's errors mean to us."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException


class TransactionAborted(Exception):
    """The open transaction cannot be committed; abort it, go back to the last commit and process again."""


class ProducerFenced(Exception):
    """This producer is over: another took over its transactional id, or the client failed for good.

    Its worker may have been declared dead: it drops its tasks and starts over with a new producer.
    """


def describe(error: KafkaError | KafkaException) -> str:
    """One line: what went wrong, with the code's name."""
    if isinstance(error, KafkaException):
        error = error.args[0]
    return f"{error.str()} ({error.name()})" if isinstance(error, KafkaError) else str(error)


def error_of(exception: KafkaException) -> KafkaError:
    """The KafkaError inside the exception."""
    return exception.args[0]


def is_fencing(error: KafkaError) -> bool:
    """Whether the error says that this producer has been replaced."""
    return error.code() in {
        KafkaError._FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
    }
