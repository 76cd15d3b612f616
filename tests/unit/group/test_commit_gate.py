"""Who may commit: a member of the group, and nobody else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from assignor.model import AssignorSettings
from kstreams_worker.group.leader import Leader
from kstreams_worker.group.plane import GroupPlane


class Nothing:
    """A topology without tasks, and a control topic that nobody writes to."""

    memory = None

    def tasks(self) -> dict[object, bool]:
        return {}

    sources = tasks

    def write(self, record: object) -> None: ...
    def topic_made(self) -> None: ...


@pytest.fixture
def plane() -> Iterator[GroupPlane]:
    made = GroupPlane(
        {"bootstrap_servers": ["127.0.0.1:1"]},
        group_id="app",
        client_id="app-0",
        protocol_type="stream",
        group_instance_id=None,
        session_timeout_ms=10_000,
        heartbeat_interval_ms=3_000,
        rebalance_timeout_ms=300_000,
        leader=Leader(AssignorSettings(), Nothing(), b""),  # type: ignore[arg-type]
        control=Nothing(),  # type: ignore[arg-type]
        tell=lambda _: None,
    )
    yield made
    made._client.close()


def joined(plane: GroupPlane, generation: int, member_id: str) -> None:
    """As the answer to a join leaves it."""
    plane._coordinator._generation = type(plane._coordinator._generation)(generation, member_id, "stream")


def test_a_member_commits_as_the_member_that_it_is(plane: GroupPlane) -> None:
    joined(plane, 7, "me")
    assert plane.begin_commit() == plane.generation
    assert (plane.generation.generation_id, plane.generation.member_id) == (7, "me")


@pytest.mark.parametrize("member_id", ["", "a-new-one"])
def test_who_is_out_of_the_group_does_not_commit(plane: GroupPlane, member_id: str) -> None:
    """Brokers take the offsets of a transaction that names neither a generation nor a member, whoever is in the group."""
    assert plane.begin_commit() is None, "before the first join"
    joined(plane, 7, "me")
    plane._coordinator.reset_generation(member_id)
    assert plane.begin_commit() is None
    joined(plane, 9, "me-again")
    assert plane.begin_commit() is not None
