"""What the brokers let this user do, and what time it is there. Asked by `kstreams-worker doctor`; changes nothing that lasts.

No request tells a broker's clock. But it notes when a transaction began, and that can be asked: so a transaction is begun that
holds nothing, and is aborted. This also shows whether the user may use transactional ids at all.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import kafka.errors as kafka_errors
from kafka.protocol.admin.groups import DescribeGroupsRequest
from kafka.protocol.admin.transactions import DescribeTransactionsRequest
from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer import AddOffsetsToTxnRequest, EndTxnRequest, InitProducerIdRequest

from kstreams_worker.errors import BrokerError
from kstreams_worker.group.client import GroupClient

TRANSACTION_TIMEOUT_MS = 10_000
OPERATIONS = {3: "READ", 6: "DELETE", 8: "DESCRIBE"}
"""Of groups, by their number in the brokers' bit sets (KIP-430)."""


@dataclass(frozen=True, slots=True)
class BrokerClock:
    """How far a broker's clock is ahead of ours; the truth is within `uncertainty_ms` of it."""

    ahead_ms: float
    uncertainty_ms: float


def group_operations(client: GroupClient, group_id: str) -> frozenset[str] | None:
    """What this user may do with the group; nothing, if it may not look; None: the brokers do not say. Raises BrokerError."""
    request = DescribeGroupsRequest(groups=[group_id], include_authorized_operations=True, max_version=5)
    try:
        [group] = client.ask(group_id, request).groups
    except BrokerError as error:
        if isinstance(error.__cause__, kafka_errors.GroupAuthorizationFailedError):
            return frozenset()
        raise
    if group.error_code == kafka_errors.GroupAuthorizationFailedError.errno:
        return frozenset()
    if group.error_code:
        raise BrokerError(f"group {group_id}: {kafka_errors.for_code(group.error_code).__name__}")
    numbers: set[int] | None = group.authorized_operations
    return None if numbers is None else frozenset(OPERATIONS[each] for each in numbers & OPERATIONS.keys())


def broker_clock(client: GroupClient, group_id: str, transactional_id: str) -> BrokerClock:
    """Begin a transaction, ask when it began, abort it. Raises BrokerError: no right, or a broker older than 3.0."""

    def ask(request: Any) -> Any:
        response = client.ask(transactional_id, request, CoordinatorType.TRANSACTION)
        _check(response.error_code, type(request).__name__)
        return response

    begun = ask(
        InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            producer_id=-1,
            producer_epoch=-1,
            max_version=4,
        )
    )
    who = {
        "transactional_id": transactional_id,
        "producer_id": begun.producer_id,
        "producer_epoch": begun.producer_epoch,
        "max_version": 3,
    }
    before_ms = time.time() * 1000
    ask(AddOffsetsToTxnRequest(group_id=group_id, **who))
    after_ms = time.time() * 1000
    try:
        described = client.ask(
            transactional_id,
            DescribeTransactionsRequest(transactional_ids=[transactional_id]),
            CoordinatorType.TRANSACTION,
        )
        [state] = described.transaction_states
        _check(state.error_code, "DescribeTransactionsRequest")
    finally:
        ask(EndTxnRequest(committed=False, **who))
    half_ms = (after_ms - before_ms) / 2
    return BrokerClock(state.transaction_start_time_ms - (before_ms + half_ms), half_ms + 1)


def _check(code: int, what: str) -> None:
    if code:
        raise BrokerError(f"{what.removesuffix('Request')}: {kafka_errors.for_code(code).__name__}")
