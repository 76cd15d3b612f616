"""What librdkafka's errors mean to us."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException


class TransactionAborted(Exception):
    """The open transaction cannot be committed; abort it, go back to the last commit and process again."""


class ProducerLost(Exception):
    """This producer is over: nobody knows what became of what it sent last.

    So its worker may hold state that the brokers do not. It drops its tasks and starts over from what they say, with a new
    producer.
    """


def describe(error: KafkaError | KafkaException) -> str:
    """One line: what went wrong, with the code's name."""
    if isinstance(error, KafkaException):
        error = error.args[0]
    return f"{error.str()} ({error.name()})" if isinstance(error, KafkaError) else str(error)


def error_of(exception: KafkaException) -> KafkaError:
    """The KafkaError inside the exception."""
    return exception.args[0]


def is_final(error: KafkaError) -> bool:
    """Whether what failed in a transaction would fail again in another, by another client: for lack of rights, or by nature."""
    if error.code() in _DENIED:
        return True
    # After a fatal error calls are refused with _FATAL, and after one that ends the transaction with _STATE: neither is marked.
    refused = error.code() in (KafkaError._FATAL, KafkaError._STATE)
    return not (refused or error.fatal() or error.txn_requires_abort() or error.retriable())


def was_not_asked(error: KafkaError) -> bool:
    """Whether a commit failed before the brokers were asked for it, which is not done before all its records are delivered.

    A call that took too long has the code of records that did, but can be called again.
    """
    has_failed: bool = error.txn_requires_abort()
    return has_failed and error.code() in (KafkaError._TIMED_OUT, KafkaError._INCONSISTENT)


_DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
