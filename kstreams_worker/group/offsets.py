"""Offsets of the group, committed with a membership: the requests, and what their answers say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import kafka.errors as kafka_errors
from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest

from kstreams_worker.errors import BrokerError, GroupError
from kstreams_worker.group.events import GroupGeneration, OffsetsUnstable

Partition = tuple[str, int]


class CommitRefused(Exception):
    """The broker refused the offsets for now (the group is settling a round); nothing is lost, commit again later."""


def commit_request(group_id: str, membership: GroupGeneration, offsets: Mapping[Partition, int]) -> Any:
    """Commits these offsets as this member."""
    topics: dict[str, list[Any]] = {}
    topic_type = OffsetCommitRequest.OffsetCommitRequestTopic
    for (topic, partition), offset in offsets.items():
        topics.setdefault(topic, []).append(
            topic_type.OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
            )
        )
    return OffsetCommitRequest(
        max_version=8,
        group_id=group_id,
        generation_id_or_member_epoch=membership.generation_id,
        member_id=membership.member_id,
        group_instance_id=membership.group_instance_id,
        topics=[topic_type(name=name, partitions=partitions) for name, partitions in topics.items()],
    )


def check_commit(response: Any) -> None:
    """Raises CommitRefused, or GroupError when this member is out of the group."""
    for code in {partition.error_code for topic in response.topics for partition in topic.partitions} - {0}:
        error = kafka_errors.for_code(code)
        if issubclass(error, (kafka_errors.RebalanceInProgressError, kafka_errors.RetriableError)):
            raise CommitRefused(error.__name__)
        raise GroupError(f"the broker refused this member's offsets: {error.__name__}")


def fetch_request(group_id: str, partitions: Iterable[Partition]) -> Any:
    """Asks for the committed offsets of these partitions, once no open transaction can change them."""
    wanted: dict[str, list[int]] = {}
    for topic, partition in partitions:
        wanted.setdefault(topic, []).append(partition)
    topic_type = OffsetFetchRequest.OffsetFetchRequestTopic
    return OffsetFetchRequest(
        group_id=group_id,
        topics=[topic_type(name=name, partition_indexes=indexes) for name, indexes in wanted.items()],
        require_stable=True,
        min_version=7,
        max_version=7,
    )


def read_offsets(response: Any) -> dict[Partition, int]:
    """The offsets of those partitions that have one. Raises OffsetsUnstable, BrokerError."""
    if response.error_code:
        raise BrokerError(f"cannot fetch committed offsets: {kafka_errors.for_code(response.error_code).__name__}")
    found = {}
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code:
                error = kafka_errors.for_code(partition.error_code)
                if issubclass(error, kafka_errors.UnstableOffsetCommitError):
                    raise OffsetsUnstable
                raise BrokerError(f"cannot fetch the committed offset of {topic.name}: {error.__name__}")
            if partition.committed_offset >= 0:
                found[topic.name, partition.partition_index] = partition.committed_offset
    return found
