"""The records on the control topic: their keys, their JSON, and what is refused.

Every kind has a version of its own, raised when a reader of the old one would misunderstand the new one; fields that such
a reader may ignore are added without. The key says the kind, and of which instance, so that compaction keeps the newest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, ValidationInfo, field_validator

from assignor.model import InstanceId, LeaderMemory, MemberId, TaskId, WorkerId

LEAVE_PREFIX = "leave/"
REASON_CHARACTERS_MAX = 200
"""Of what is wrong with a record; the words quote it, and it may be a megabyte of anything."""
NOBODY = -1
"""In a list of workers by partition: none."""


class BadRecord(Exception):
    """A record that this version cannot read; `str` says why."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True)


class LeaveOrder(_Record):
    """An instance is to hand over its tasks and leave. It holds until its key is deleted: taken back, or done."""

    kind: Literal["leave"] = "leave"
    version: Literal[1] = 1
    instance: UUID
    name: str = ""
    """Host or pod name, for people."""
    addresses: tuple[str, ...] = ()
    """Of its workers, as the brokers see them."""
    timeout_ms: int | None = Field(default=None, ge=0)
    """How long to wait for others to learn its tasks; None: as long as the instance's own settings say."""
    ordered_ms: int = Field(ge=0)
    """When (milliseconds since 1970), by the clock of whoever gave the order."""

    @property
    def key(self) -> str:
        return leave_key(self.instance)

    def remaining_ms(self, default_timeout_ms: int | None, now_ms: int) -> int | None:
        """What is left of its time; None: as long as it takes. A clock that is behind the giver's adds nothing."""
        timeout_ms = default_timeout_ms if self.timeout_ms is None else self.timeout_ms
        if timeout_ms is None:
            return None
        return min(timeout_ms, max(0, timeout_ms - (now_ms - self.ordered_ms)))


class Nudge(_Record):
    """A round begins: whoever is still in this generation joins at once rather than at its next heartbeat."""

    kind: Literal["nudge"] = "nudge"
    version: Literal[1] = 1
    generation: int = Field(ge=0)
    """The generation that ends. In a later one the nudge is old news."""
    member: str
    ready: tuple[str, ...] | None = None
    """Tasks whose learner at this member is ready to take over; None: it does not know why the round began."""

    @property
    def key(self) -> str:
        return "nudge"

    @field_validator("ready")
    @classmethod
    def _tasks(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for name in names or ():
            _task(name)
        return names

    def ready_tasks(self) -> frozenset[TaskId] | None:
        return None if self.ready is None else frozenset(map(_task, self.ready))


class Memory(_Record):
    """What the leader of a generation remembers, for whoever leads after it. Workers are listed once and then meant by
    their place in the list; owners by subtopology and partition."""

    kind: Literal["memory"] = "memory"
    version: Literal[1] = 1
    generation: int = Field(ge=0)
    workers: tuple[tuple[UUID, Annotated[int, Field(ge=0)]], ...]
    participants: Mapping[str, int]
    owners: Mapping[int, tuple[int, ...]]
    leaving_deadlines_ms: Mapping[str, int]

    @property
    def key(self) -> str:
        return "memory"

    @field_validator("participants")
    @classmethod
    def _known_participants(cls, participants: Mapping[str, int], info: ValidationInfo) -> Mapping[str, int]:
        _check_places(participants.values(), info)
        return participants

    @field_validator("owners")
    @classmethod
    def _known_owners(
        cls, owners: Mapping[int, tuple[int, ...]], info: ValidationInfo
    ) -> Mapping[int, tuple[int, ...]]:
        for places in owners.values():
            _check_places((place for place in places if place != NOBODY), info)
        return owners

    @classmethod
    def of(cls, memory: LeaderMemory, generation: int) -> Memory:
        """The memory as a record."""
        workers = sorted({*memory.participants.values(), *memory.owners.values()})
        place = {worker: index for index, worker in enumerate(workers)}
        return cls(
            generation=generation,
            workers=tuple((UUID(bytes=worker.instance), worker.index) for worker in workers),
            participants={member: place[worker] for member, worker in memory.participants.items()},
            owners=by_partition({task: place[worker] for task, worker in memory.owners.items()}, NOBODY),
            leaving_deadlines_ms={str(member): at_ms for member, at_ms in memory.leaving_deadlines_ms.items()},
        )

    def recalled(self) -> LeaderMemory:
        """The record as a memory."""
        workers = [WorkerId(InstanceId(instance.bytes), index) for instance, index in self.workers]
        return LeaderMemory(
            participants={MemberId(member): workers[place] for member, place in self.participants.items()},
            owners={
                TaskId(subtopology, partition): workers[place]
                for subtopology, places in self.owners.items()
                for partition, place in enumerate(places)
                if place != NOBODY
            },
            leaving_deadlines_ms={MemberId(member): at for member, at in self.leaving_deadlines_ms.items()},
        )


class Routing(_Record):
    """Where each task can be queried: endpoints (`host:port`) are listed once, and meant by their place in the list."""

    kind: Literal["routing"] = "routing"
    version: Literal[1] = 1
    generation: int = Field(ge=0)
    endpoints: tuple[str, ...]
    active: Mapping[int, tuple[int, ...]]
    """By subtopology and partition; NOBODY where the owner has no endpoint, or there is no owner."""
    standbys: Mapping[int, tuple[tuple[int, ...], ...]]

    @property
    def key(self) -> str:
        return "routing"

    @field_validator("active")
    @classmethod
    def _known_active(
        cls, active: Mapping[int, tuple[int, ...]], info: ValidationInfo
    ) -> Mapping[int, tuple[int, ...]]:
        for places in active.values():
            _check_places((place for place in places if place != NOBODY), info, "endpoints")
        return active

    @field_validator("standbys")
    @classmethod
    def _known_standbys(
        cls, standbys: Mapping[int, tuple[tuple[int, ...], ...]], info: ValidationInfo
    ) -> Mapping[int, tuple[tuple[int, ...], ...]]:
        for tasks in standbys.values():
            for places in tasks:
                _check_places(places, info, "endpoints")
        return standbys


Record = LeaveOrder | Nudge | Memory | Routing
_records: TypeAdapter[Record] = TypeAdapter(Annotated[Record, Field(discriminator="kind")])


def leave_key(instance: UUID) -> str:
    """The key of the order that an instance has."""
    return f"{LEAVE_PREFIX}{instance}"


def encode(record: Record) -> tuple[bytes, bytes]:
    """Key and value of a record."""
    return record.key.encode(), record.model_dump_json().encode()


def decode(key: bytes | None, value: bytes) -> Record:
    """The record of a key and a value. Raises BadRecord for garbage and for versions that this code does not know."""
    try:
        record = _records.validate_json(value)
    except (ValidationError, ValueError, RecursionError) as error:
        raise BadRecord(_reason(error)) from error
    if key is None or key != record.key.encode():
        raise BadRecord(f"the key of a {record.kind} record does not fit its value")
    return record


def instance_of(key: bytes) -> UUID | None:
    """The instance whose order has this key; None for any other key."""
    try:
        text = key.decode()
        return UUID(text.removeprefix(LEAVE_PREFIX)) if text.startswith(LEAVE_PREFIX) else None
    except ValueError:
        return None


def by_partition(values: Mapping[TaskId, int], nothing: int) -> dict[int, tuple[int, ...]]:
    """Values of tasks by subtopology, in the order of partitions, with `nothing` in the gaps."""
    found: dict[int, dict[int, int]] = {}
    for task, value in values.items():
        found.setdefault(task.subtopology, {})[task.partition] = value
    return {
        subtopology: tuple(numbers.get(partition, nothing) for partition in range(max(numbers) + 1))
        for subtopology, numbers in sorted(found.items())
    }


def _task(name: str) -> TaskId:
    subtopology, separator, partition = name.partition("_")
    if not (separator and subtopology.isdecimal() and partition.isdecimal()):
        raise ValueError(f"{name!r} is no task")
    return TaskId(int(subtopology), int(partition))


def _check_places(places: Iterable[int], info: ValidationInfo, listed: str = "workers") -> None:
    count = len(info.data.get(listed, ()))
    if not all(0 <= place < count for place in places):
        raise ValueError(f"a place outside the list of {count} {listed}")


def _reason(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return f"{type(error).__name__}: {error}"
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    reason = f"{place}: {first['msg']}" if place else first["msg"]
    return reason if len(reason) <= REASON_CHARACTERS_MAX else f"{reason[:REASON_CHARACTERS_MAX]}..."
