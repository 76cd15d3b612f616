"""The settings, area by area, as frozen pydantic models: names, types, limits, defaults and what each is for.

An attribute's name is the setting's name with `_` for `.`: `num_workers` is `num.workers`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from platformdirs import user_state_path
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from kstreams_worker.observe.levels import parse_levels

MIB = 1024 * 1024

# Topic names are made from it, and Kafka's limit for those is 249; also the name of a directory.
_APPLICATION_ID = re.compile(r"[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,199}")
_HOST_AND_PORT = re.compile(r"[^\s,/]+:\d{1,5}")


def _no_value(value: object) -> object:
    return None if isinstance(value, str) and value.strip().lower() in ("", "null", "none") else value


def _application_id(value: str) -> str:
    if not _APPLICATION_ID.fullmatch(value):
        raise ValueError(
            "may have letters, digits, '.', '_' and '-' only, no '.' at the start, at most 200: topics are named after it"
        )
    return value


def _servers(value: str) -> str:
    servers = [server.strip() for server in value.split(",")]
    for server in servers:
        if not _HOST_AND_PORT.fullmatch(server):
            raise ValueError(f"{server!r} is not host:port; write host:port[,host:port...]")
    return ",".join(servers)


def _host_and_port(value: str) -> str:
    if not _HOST_AND_PORT.fullmatch(value):
        raise ValueError("is not host:port")
    return value


def _levels(value: str) -> str:
    parse_levels(value)
    return value


Milliseconds = Annotated[int, Field(ge=1)]
Bytes = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]


class KafkaSettings(BaseModel):
    """The cluster, and what every client needs to reach it."""

    application_id: Annotated[str, AfterValidator(_application_id)] = Field(
        description="Name of the application: the consumer group, and the prefix of internal topics and transactions."
    )
    bootstrap_servers: Annotated[str, AfterValidator(_servers)] = Field(
        description="Brokers to start from, host:port[,host:port...]."
    )
    replication_factor: int = Field(default=-1, description="Replicas of internal topics; -1: the broker's default.")
    client: dict[str, str] = Field(
        default_factory=dict,
        repr=False,
        exclude=True,
        description="Settings passed on to clients: security, and those with a client's prefix.",
    )


class GroupSettings(BaseModel):
    """Membership, and how the leader assigns tasks."""

    stream_rebalancing_mode: Literal["incremental", "upgrading"] = Field(
        default="incremental",
        description="incremental: protocol type `stream`; upgrading: the same algorithm, protocol type `consumer`.",
    )
    scale_down_timeout_ms: Annotated[Milliseconds | None, BeforeValidator(_no_value)] = Field(
        default=None,
        description="How long a leaving worker waits for its tasks to be learned elsewhere; null: for ever.",
    )
    learner_partial_rebalance: bool = Field(
        default=True, description="Rejoin each time one learner is ready; false: when all of the worker's learners are."
    )
    stream_imbalance_percentage: float = Field(
        default=0.2, gt=0, le=1, description="Fraction by which an instance's load may differ from its expected share."
    )
    num_standby_tasks: int = Field(default=0, ge=0, description="Warm copies of each stateful task.")
    acceptable_recovery_lag: int = Field(
        default=10_000, ge=0, description="Records of lag within which a copy of a task's state counts as caught up."
    )
    upgrade_from: Annotated[
        Literal["0.10.0", "0.10.1", "0.10.2", "0.11.0", "1.0", "1.1"] | None, BeforeValidator(_no_value)
    ] = Field(default=None, description="Release that a rolling upgrade starts from, whose metadata version is sent.")
    num_workers: int = Field(default=1, ge=1, le=256, description="Worker processes of this instance.")
    instance_capacity: Count = Field(
        default_factory=lambda data: data.get("num_workers", 1),
        description="Share of the tasks that this instance takes, relative to others; default: num.workers.",
    )
    application_server: Annotated[Annotated[str, AfterValidator(_host_and_port)] | None, BeforeValidator(_no_value)] = (
        Field(default=None, description="host:port under which this instance answers queries.")
    )
    group_instance_id: Annotated[str | None, BeforeValidator(_no_value)] = Field(
        default=None, description="Static membership: a name of this instance that outlives its restarts."
    )
    session_timeout_ms: Milliseconds = Field(
        default=10_000, description="Silence after which the broker counts a worker as dead."
    )
    heartbeat_interval_ms: Milliseconds = Field(default=500, description="Time between heartbeats.")
    rebalance_timeout_ms: Milliseconds = Field(
        default=60_000, description="How long a round waits for a worker to suspend tasks and join."
    )
    on_sigterm: Literal["close", "handover"] = Field(
        default="close",
        description="close: commit and leave at once; handover: leave once tasks are learned elsewhere.",
    )


class ProcessingSettings(BaseModel):
    """How records are read, processed and committed."""

    processing_guarantee: Literal["exactly_once_v2", "at_least_once"] = Field(
        default="exactly_once_v2", description="Whether outputs, state and offsets commit in one transaction."
    )
    commit_interval_ms: Milliseconds = Field(default=500, description="Time between commits.")
    cache_max_bytes: Bytes = Field(
        default=64 * MIB,
        description="Record cache of tables and aggregations: above 0, a key's newest value goes on once per commit.",
    )
    transaction_timeout_ms: Milliseconds = Field(
        default=10_000, description="Time after which the broker aborts an open transaction."
    )
    task_buffer_max_bytes: Bytes = Field(
        default=64 * MIB, description="Uncommitted state of one worker that causes an early commit."
    )
    poll_max_records: Count = Field(default=10_000, description="Records taken from the consumer at once.")
    deserialization_exception_policy: Literal["fail", "skip", "dead_letter"] = Field(
        default="fail", description="What to do with a record that cannot be decoded."
    )
    dead_letter_topic: str = Field(
        default_factory=lambda data: f"{data.get('application_id', '')}-dead-letter",
        description="Where records go under the policy dead_letter; default: <application.id>-dead-letter.",
    )


class StateSettings(BaseModel):
    """State stores on disk."""

    state_dir: Path = Field(
        default_factory=lambda: user_state_path("kstreams-worker"),
        description="Directory of the instance's state; one per instance, never shared.",
    )
    rocksdb_block_cache_bytes: Bytes = Field(default=64 * MIB, description="RocksDB read cache of one worker.")
    rocksdb_write_buffer_bytes: Bytes = Field(default=64 * MIB, description="RocksDB write buffers of one worker.")
    state_cleanup_delay_ms: Milliseconds = Field(
        default=600_000, description="Time after which the state of a task that moved away is deleted."
    )
    upgrade_mode: Annotated[Literal["in_place", "roll_over_new"] | None, BeforeValidator(_no_value)] = Field(
        default=None, description="How state stores are brought to a newer format; null: they are as they are."
    )


class ServiceSettings(BaseModel):
    """HTTP and logs."""

    http_host: str = Field(default="127.0.0.1", description="Address that the status pages bind to.")
    http_port: Annotated[Annotated[int, Field(ge=0, le=65_535)] | None, BeforeValidator(_no_value)] = Field(
        default=None, description="Port of the status pages; 0: any free one; null: no HTTP."
    )
    log_format: Literal["auto", "console", "json"] = Field(
        default="auto", description="auto: console on a terminal, JSON elsewhere."
    )
    log_level: Annotated[str, AfterValidator(_levels)] = Field(
        default="info", description="LEVEL[,LOGGER=LEVEL...], such as info,kafka=debug."
    )
