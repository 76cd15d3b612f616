"""Questions about a group from outside it: describe it, take a dead member out.

On Kafka 4 the ordinary admin calls refuse a group of type "stream"; the plain DescribeGroups request does not, and its
answer carries every member's metadata and assignment: the task map of the whole application, from any machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import kafka.errors as kafka_errors
from kafka.net.compat import KafkaNetClient
from kafka.protocol.admin.groups import DescribeGroupsRequest
from kafka.protocol.consumer import LeaveGroupRequest, OffsetCommitRequest, OffsetFetchRequest
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest
from kafka.protocol.producer import InitProducerIdRequest
from tenacity import (
    Retrying,
    retry_if_exception_type,
    retry_if_result,
    stop_after_delay,
    wait_exponential,
    wait_fixed,
)

from assignor.model import Assignment, Subscription
from assignor.wire import MetadataError, decode_assignment, decode_subscription
from kstreams_worker.errors import BrokerError, GroupAbsent, GroupError
from kstreams_worker.group.events import GroupDescription, MemberDescription

TIMEOUT_MS = 10_000
SETTLE_TIMEOUT_S = 30.0
ROUND_STATES = ("PreparingRebalance", "CompletingRebalance")
"""The broker's words for a group in the middle of a round."""


class GroupClient:
    """Made by `connect`; every call has a deadline and raises BrokerError when it passes."""

    def __init__(self, client: KafkaNetClient) -> None:
        self._client = client

    @classmethod
    @contextmanager
    def connect(cls, client_config: Mapping[str, Any]) -> Iterator[GroupClient]:
        """A client for the time of a `with` block."""
        client = KafkaNetClient(**{**client_config, "client_id": "kstreams-tool"})
        client._net.start()
        try:
            try:
                client._manager.bootstrap(TIMEOUT_MS)
            except kafka_errors.KafkaError as error:
                servers = client_config.get("bootstrap_servers")
                raise BrokerError(
                    f"cannot reach Kafka at {servers}: {error}; check bootstrap.servers and that the brokers are up"
                ) from error
            yield cls(client)
        finally:
            client._net.stop(timeout_ms=5000)
            client.close()

    def describe(self, group_id: str) -> GroupDescription:
        """State and members. Raises GroupAbsent when there is no such group, GroupError for other refusals."""
        response = self.ask(group_id, DescribeGroupsRequest(groups=[group_id], include_authorized_operations=False))
        group = response.groups[0]
        error = kafka_errors.for_code(group.error_code)
        absent = error is kafka_errors.GroupIdNotFoundError or group.group_state == "Dead"
        if group.error_code and not absent:
            raise GroupError(f"group {group_id}: {error.__name__}")
        if absent:
            raise GroupAbsent(
                f"there is no group {group_id}: check application.id, and that its workers have been started"
            )
        members = tuple(
            MemberDescription(
                member_id=member.member_id,
                client_id=member.client_id,
                client_host=member.client_host,
                group_instance_id=member.group_instance_id,
                subscription=_subscription(bytes(member.member_metadata or b"")),
                assignment=_assignment(bytes(member.member_assignment or b"")),
            )
            for member in group.members
        )
        return GroupDescription(group_id, group.group_state, group.protocol_type, members)

    def describe_settled(self, group_id: str, timeout_s: float = SETTLE_TIMEOUT_S) -> GroupDescription:
        """The same once no round is on: until then the broker tells neither what members say nor what they were given.

        Raises GroupError when there is no such group, or the round takes longer than `timeout_s`.
        """
        retrying = Retrying(
            retry=retry_if_result(lambda group: group.state in ROUND_STATES),
            stop=stop_after_delay(timeout_s),
            wait=wait_fixed(0.1),
            retry_error_callback=lambda tried: tried.outcome and tried.outcome.result(),
        )
        group: GroupDescription = retrying(self.describe, group_id)
        if group.state in ROUND_STATES:
            raise GroupError(
                f"group {group_id} is in the middle of a round ({group.state}) for {timeout_s:g} s now: ask again when it "
                "has ended; a member that does not join holds it up for rebalance.timeout.ms at most"
            )
        return group

    def committed_offsets(self, group_id: str) -> dict[tuple[str, int], int]:
        """All committed offsets of the group, by topic and partition."""
        request = OffsetFetchRequest(group_id=group_id, topics=None, require_stable=False, min_version=7, max_version=7)
        response = self.ask(group_id, request)
        if response.error_code:
            raise GroupError(f"offsets of group {group_id}: {kafka_errors.for_code(response.error_code).__name__}")
        return {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in response.topics
            for partition in topic.partitions
            if partition.committed_offset >= 0
        }

    def set_offsets(self, group_id: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets for a group without members. Raises GroupError when it has some, or refuses for another reason."""
        if not offsets:
            return
        topic_type = OffsetCommitRequest.OffsetCommitRequestTopic
        topics: dict[str, list[Any]] = {}
        for (topic, partition), offset in offsets.items():
            topics.setdefault(topic, []).append(
                topic_type.OffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
                )
            )
        request = OffsetCommitRequest(
            max_version=8,
            group_id=group_id,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[topic_type(name=name, partitions=partitions) for name, partitions in topics.items()],
        )
        response = self.ask(group_id, request)
        for code in {partition.error_code for topic in response.topics for partition in topic.partitions} - {0}:
            raise GroupError(f"group {group_id} refused the offsets: {kafka_errors.for_code(code).__name__}")

    def remove(self, group_id: str, member_id: str) -> None:
        """Take a member that is dead out of the group at once, instead of after its session timeout."""
        self.ask(
            group_id,
            LeaveGroupRequest(
                group_id=group_id,
                member_id=member_id,
                members=[LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=None, reason="died")],
                max_version=5,
            ),
        )

    def fence(self, transactional_id: str) -> None:
        """End whatever transaction a dead worker left open, so that it holds nobody back (KIP-360: a new epoch of its id).

        By the request alone: a producer made for it waits half a second between two questions. Raises BrokerError.
        """
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=TIMEOUT_MS,
            producer_id=-1,
            producer_epoch=-1,
            max_version=4,
        )
        response = self.ask(transactional_id, request, CoordinatorType.TRANSACTION)
        if response.error_code:
            error = kafka_errors.for_code(response.error_code)
            raise BrokerError(f"cannot end the transaction of {transactional_id}: {error.__name__}")

    @property
    def broker_version(self) -> tuple[int, ...]:
        """The release line of the broker we bootstrapped from, as far as the requests that it knows tell."""
        version: tuple[int, ...] = self._client.get_broker_version()
        return version

    def ask(self, key: str, request: Any, kind: int = CoordinatorType.GROUP) -> Any:
        """Send to the coordinator of a group (or transactional id) and return the answer, whatever errors are inside.

        Tries again while the coordinator moves. Raises BrokerError.
        """

        async def send() -> Any:
            find = FindCoordinatorRequest(key=key, key_type=int(kind), coordinator_keys=[key])
            found = await manager.wait_for(manager.send(find), TIMEOUT_MS)
            result = found.coordinators[0] if found.coordinators else found
            if result.error_code:
                raise kafka_errors.for_code(result.error_code)()
            node = manager.cluster.add_coordinator(result, CoordinatorType(kind), key)
            await manager.wait_for(manager.get_connection(node).init_future, TIMEOUT_MS)
            response = await manager.wait_for(manager.send(request, node_id=node), TIMEOUT_MS)
            for answer in (response, *getattr(response, "groups", ())):
                error = kafka_errors.for_code(getattr(answer, "error_code", 0))
                if issubclass(error, kafka_errors.RetriableError):  # the coordinator has moved, or is loading
                    raise error
            return response

        manager = self._client._manager
        retrying = Retrying(
            retry=retry_if_exception_type(kafka_errors.RetriableError),
            stop=stop_after_delay(TIMEOUT_MS / 1000),
            wait=wait_exponential(multiplier=0.02, max=0.5),
            reraise=True,
        )
        try:
            return retrying(lambda: self._client._net.run(send))
        except kafka_errors.KafkaError as error:
            reason = str(error) or type(error).__name__
            raise BrokerError(f"the coordinator of {key} did not answer: {reason}") from error


def _subscription(data: bytes) -> Subscription | None:
    try:
        said = decode_subscription(data)
    except MetadataError:
        return None
    return said if isinstance(said, Subscription) else None


def _assignment(data: bytes) -> Assignment | None:
    try:
        return decode_assignment(data)
    except MetadataError:
        return None
