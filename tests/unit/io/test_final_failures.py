"""What becomes of a transaction that failed: whether another try may help, and whether it may be committed after all."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from kstreams_worker.io.failures import is_final, was_not_asked


def error(code: int, *, fatal: bool = False, retriable: bool = False, txn_requires_abort: bool = False) -> KafkaError:
    return KafkaError(code, "for the test", fatal, retriable, txn_requires_abort)


@pytest.mark.parametrize(
    "passing",
    [
        error(KafkaError._FENCED, fatal=True),
        error(KafkaError._FATAL),
        error(KafkaError._STATE),
        error(KafkaError._TIMED_OUT, retriable=True),
        error(KafkaError.ILLEGAL_GENERATION, txn_requires_abort=True),
    ],
    ids=str,
)
def test_what_ends_a_client_or_a_transaction_is_not_final(passing: KafkaError) -> None:
    assert not is_final(passing)


@pytest.mark.parametrize(
    "final",
    [
        error(KafkaError.TOPIC_AUTHORIZATION_FAILED, txn_requires_abort=True),
        error(KafkaError.GROUP_AUTHORIZATION_FAILED, txn_requires_abort=True),
        error(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, fatal=True),
        error(KafkaError._INVALID_ARG),
    ],
    ids=str,
)
def test_a_lack_of_rights_and_a_wrong_call_are_final(final: KafkaError) -> None:
    """However the client marks them: another would meet the same."""
    assert is_final(final)


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (error(KafkaError._TIMED_OUT, txn_requires_abort=True), True),
        (error(KafkaError._INCONSISTENT, txn_requires_abort=True), True),
        (error(KafkaError._TIMED_OUT, retriable=True), False),
        (error(KafkaError._TRANSPORT), False),
        (error(KafkaError.UNKNOWN_PRODUCER_ID, txn_requires_abort=True), False),
    ],
    ids=str,
)
def test_a_commit_is_known_to_have_failed_where_its_records_were_not_delivered(
    failure: KafkaError, *, expected: bool
) -> None:
    """In all other cases it may be done, and the worker has to ask the brokers."""
    assert was_not_asked(failure) == expected
