"""All administrative calls to the brokers, in one place.

One place also because the admin client of confluent-kafka 2.16.1 crashes the process when one call names a topic twice:
names are made unique here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata, ConfigResource, NewTopic, OffsetSpec, ResourceType

from kstreams_worker.errors import BrokerError
from kstreams_worker.io.client_log import SilentLogger
from kstreams_worker.io.failures import describe, error_of
from kstreams_worker.io.troubles import Troubles
from kstreams_worker.topology.records import Partition

REQUEST_TIMEOUT_S = 10.0
FIRST_WAIT_S = 1.5
"""How long the first wait for an answer is: then it is looked whether the rest of the time may help."""

_OLD_LEADER_CODES = frozenset(
    {
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError._NOENT,  # it knows the topic, and no leader
    }
)
_UNANSWERED_CODES = frozenset({KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._DESTROY_BROKER})


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic to create. `replication_factor` -1 leaves it to the broker's default."""

    name: str
    partitions: int
    replication_factor: int = -1
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The brokers, as `host:port`; `operations` is None where they do not say what this user may do."""

    cluster_id: str
    brokers: tuple[str, ...]
    operations: frozenset[str] | None


class Refusal(NamedTuple):
    """Why the brokers would not do something."""

    reason: str
    lacks_right: bool


class Admin:
    """Thread-safe; each call waits for its answer for at most `timeout_s`. All raise BrokerError."""

    def __init__(
        self,
        client_config: Mapping[str, Any],
        *,
        client_id: str = "kstreams-admin",
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        self._servers = client_config.get("bootstrap.servers", "")
        self._troubles = Troubles(self._servers)
        self._config = {
            **client_config,
            "client.id": client_id,
            "log.connection.close": False,
            "error_cb": self._troubles.heard,
        }
        self._made: AdminClient | None = None
        self._timeout_s = timeout_s

    @property
    def _client(self) -> AdminClient:
        """Another after each call that found no brokers: a client can lose them for good, see `Lifeline`."""
        client = self._made
        if client is None:
            client = self._made = AdminClient(self._config, logger=SilentLogger())
        return client

    def cluster(self) -> ClusterFacts:
        """Which brokers there are, and what this user may do with the cluster as a whole."""
        self._metadata()
        future = self._client.describe_cluster(include_authorized_operations=True, request_timeout=self._timeout_s)
        found = self._result(future, f"cannot reach Kafka at {self._servers}")
        return ClusterFacts(
            cluster_id=found.cluster_id or "",
            brokers=tuple(f"{node.host}:{node.port}" for node in found.nodes),
            operations=_operation_names(found.authorized_operations),
        )

    def topic_operations(self, topics: Iterable[str]) -> dict[str, frozenset[str] | None]:
        """What this user may do with each topic that exists; nothing, if it may not see whether it exists; None: the
        brokers do not say."""
        unique = sorted(set(topics))
        if not unique:
            return {}
        futures = self._client.describe_topics(
            TopicCollection(unique), include_authorized_operations=True, request_timeout=self._timeout_s
        )
        operations: dict[str, frozenset[str] | None] = {}
        for name, future in futures.items():
            try:
                found = self._result(future, f"cannot describe topic {name}", ignore=KafkaError.UNKNOWN_TOPIC_OR_PART)
            except BrokerError as error:
                if not _lacks_right(error.__cause__):
                    raise
                operations[name] = frozenset()
            else:
                if found is not None:
                    operations[name] = _operation_names(found.authorized_operations)
        return operations

    def partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """Partitions of each topic that exists; topics that do not are left out."""
        wanted = set(topics)
        return {
            name: len(topic.partitions)
            for name, topic in self._metadata().topics.items()
            if name in wanted and topic.error is None and topic.partitions
        }

    def topic_names(self) -> frozenset[str]:
        """Names of all topics that this client may see."""
        return frozenset(self._metadata().topics)

    def require_brokers(self) -> None:
        """Raises BrokerError with the reason if none can be reached; at once, if waiting would not help."""
        self._metadata()

    def create_topics(self, specs: Iterable[TopicSpec]) -> None:
        """Create the topics; those that exist already are left as they are."""
        for name, future in self._creation(specs, only_try=False).items():
            self._result(future, f"cannot create topic {name}", ignore=KafkaError.TOPIC_ALREADY_EXISTS)

    def refused_topics(self, specs: Iterable[TopicSpec]) -> dict[str, Refusal]:
        """Those of the topics that the brokers would not create, and why. Nothing is created."""
        refused: dict[str, Refusal] = {}
        for name, future in self._creation(specs, only_try=True).items():
            try:
                self._result(future, f"cannot create topic {name}", ignore=KafkaError.TOPIC_ALREADY_EXISTS)
            except BrokerError as error:
                cause = error.__cause__
                if not isinstance(cause, KafkaException):
                    raise
                refused[name] = Refusal(describe(cause), _lacks_right(cause))
        return refused

    def _creation(self, specs: Iterable[TopicSpec], *, only_try: bool) -> Mapping[str, Future[Any]]:
        unique = {spec.name: spec for spec in specs}
        if not unique:
            return {}
        futures: Mapping[str, Future[Any]] = self._client.create_topics(
            [
                NewTopic(
                    spec.name,
                    num_partitions=spec.partitions,
                    replication_factor=spec.replication_factor,
                    config=dict(spec.config),
                )
                for spec in unique.values()
            ],
            operation_timeout=self._timeout_s,
            request_timeout=self._timeout_s,
            validate_only=only_try,
        )
        return futures

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete the topics; those that do not exist are ignored."""
        unique = sorted(set(names))
        if not unique:
            return
        futures = self._client.delete_topics(unique, operation_timeout=self._timeout_s)
        for name, future in futures.items():
            self._result(future, f"cannot delete topic {name}", ignore=KafkaError.UNKNOWN_TOPIC_OR_PART)

    def topic_configs(self, topics: Iterable[str], key: str) -> dict[str, str]:
        """One configuration entry of each topic."""
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in sorted(set(topics))]
        if not resources:
            return {}
        answers = self._client.describe_configs(resources, request_timeout=self._timeout_s)
        return {
            resource.name: self._result(future, f"cannot read the configuration of topic {resource.name}")[key].value
            for resource, future in answers.items()
        }

    def end_offsets(self, partitions: Iterable[Partition], *, committed: bool) -> dict[Partition, int]:
        """The offset after the last record: of committed data only (the last stable offset), or of all."""
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        return self._offsets(partitions, OffsetSpec.latest(), isolation)

    def begin_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The offset of the first record that is still there; that of the next one where there is none."""
        return self._offsets(partitions, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED)

    def offsets_at(self, partitions: Iterable[Partition], timestamp_ms: int) -> dict[Partition, int]:
        """The offset of the first record at this time or later; partitions without one are left out."""
        found = self._offsets(partitions, OffsetSpec.for_timestamp(timestamp_ms), IsolationLevel.READ_UNCOMMITTED)
        return {partition: offset for partition, offset in found.items() if offset >= 0}

    def _offsets(
        self, partitions: Iterable[Partition], spec: OffsetSpec, isolation: IsolationLevel
    ) -> dict[Partition, int]:
        request = {TopicPartition(*partition): spec for partition in set(partitions)}
        if not request:
            return {}
        try:
            return self._ask_offsets(request, isolation)
        except BrokerError as error:
            if not _knows_old_leaders(error):
                raise
        # The client asks with the leader epochs it remembers, and those answers do not make it look anew by itself: it
        # would be refused, after any restart of a broker, until its metadata has aged (15 minutes).
        for topic in {asked.topic for asked in request}:
            self._metadata(topic)
        return self._ask_offsets(request, isolation)

    def _ask_offsets(
        self, request: dict[TopicPartition, OffsetSpec], isolation: IsolationLevel
    ) -> dict[Partition, int]:
        answers = self._client.list_offsets(request, isolation_level=isolation, request_timeout=self._timeout_s)
        return {
            (asked.topic, asked.partition): self._result(future, f"cannot read the offsets of {asked.topic}").offset
            for asked, future in answers.items()
        }

    def _metadata(self, topic: str | None = None) -> ClusterMetadata:
        first_s = min(FIRST_WAIT_S, self._timeout_s)
        try:
            return self._ask_metadata(topic, first_s)
        except KafkaException as exception:
            if self._troubles.are_hopeless or first_s == self._timeout_s:
                raise self._unreachable(exception) from exception
        try:
            return self._ask_metadata(topic, self._timeout_s - first_s)
        except KafkaException as exception:
            raise self._unreachable(exception) from exception

    def _unreachable(self, exception: KafkaException) -> BrokerError:
        self._made = None
        return self._troubles.unreachable(describe(exception))

    def _ask_metadata(self, topic: str | None, timeout_s: float) -> ClusterMetadata:
        client = self._client
        try:
            found = client.list_topics(topic, timeout=timeout_s)
        finally:
            client.poll(0)
        self._troubles.forget()  # not before: of the same complaint again the client says nothing for a while
        return found

    def _result(self, future: Future[Any], what: str, ignore: int | None = None) -> Any:
        try:
            return future.result(timeout=self._timeout_s + 1.0)
        except KafkaException as exception:
            if ignore is not None and error_of(exception).code() == ignore:
                return None
            if error_of(exception).code() in _UNANSWERED_CODES:
                self._made = None
            raise BrokerError(f"{what}: {describe(exception)}") from exception
        except TimeoutError as exception:
            self._made = None
            raise BrokerError(f"{what}: no answer within {self._timeout_s:g} s from {self._servers}") from exception


def _knows_old_leaders(error: BrokerError) -> bool:
    cause = error.__cause__
    return isinstance(cause, KafkaException) and error_of(cause).code() in _OLD_LEADER_CODES


def _operation_names(operations: Iterable[Any] | None) -> frozenset[str] | None:
    return None if operations is None else frozenset(operation.name for operation in operations)


def _lacks_right(exception: BaseException | None) -> bool:
    return isinstance(exception, KafkaException) and error_of(exception).code() in {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
