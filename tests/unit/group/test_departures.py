"""Who is to leave, and how far they are."""

from __future__ import annotations

from uuid import UUID

import pytest

from assignor.model import TaskId
from kstreams_worker.errors import UsageError
from kstreams_worker.group.departures import (
    Departure,
    addresses,
    answers_to,
    by_names,
    by_share,
    check_somebody_stays,
    progress,
    said_leaving,
)
from kstreams_worker.group.overview import GroupOverview, InstanceLine, TaskLine, WorkerLine


def instance(
    number: int, *tasks: TaskLine, name: str = "", leader: bool = False, leaving: bool = False
) -> InstanceLine:
    worker = WorkerLine(f"m{number}", 0, f"10.0.0.{number}", leader, leaving, tuple(tasks))
    return InstanceLine(str(UUID(int=number << 96)), name or f"pod-{number}", 1, (worker,))


def active(*partitions: int) -> tuple[TaskLine, ...]:
    return tuple(TaskLine(TaskId(0, partition), "active", "active", 0) for partition in partitions)


def learner(partition: int, lag: int | None, state: str = "restoring") -> TaskLine:
    return TaskLine(TaskId(0, partition), "learner", state, lag)


GROUP = [instance(1, *active(0, 1), leader=True), instance(2, *active(2)), instance(3, *active(3, 4))]


@pytest.mark.parametrize("name", ["pod-2", "10.0.0.2", "00000002", "00000002-0000-0000-0000-000000000000"])
def test_an_instance_has_several_names(name: str) -> None:
    assert by_names(GROUP, [name]) == [GROUP[1]]


def test_an_order_is_found_again_by_all_that_it_was_given_by() -> None:
    """An order carries the addresses along: its instance may have left the group, and then nobody else knows them."""
    ordered = GROUP[1]
    for name in (ordered.name, ordered.process_id[:8], ordered.workers[0].client_host):
        assert by_names(GROUP, [name]) == [ordered]
        assert answers_to(name, ordered.name, ordered.process_id, addresses(ordered))
    assert not answers_to(GROUP[0].workers[0].client_host, ordered.name, ordered.process_id, addresses(ordered))


def test_a_hosts_name_means_all_instances_on_it() -> None:
    """What an operator means who takes a host down; an instance that is named twice is meant once."""
    on_one_host = [instance(1, name="rack-7"), instance(2, name="rack-7"), instance(3)]
    assert by_names(on_one_host, ["rack-7", "00000001"]) == on_one_host[:2]


@pytest.mark.parametrize("name", ["pod-9", "0000000", "pod", ""])
def test_a_name_that_nobody_has_is_refused_with_those_that_there_are(name: str) -> None:
    with pytest.raises(UsageError, match=r"pod-1 \(00000001\), pod-2 \(00000002\), pod-3 \(00000003\)"):
        by_names(GROUP, ["pod-1", name])


@pytest.mark.parametrize(("share", "count"), [("80%", 8), ("32", 8), ("79%", 8), ("81%", 7), ("1%", 39), (" 50% ", 20)])
def test_a_share_of_forty(share: str, count: int) -> None:
    """What stays is rounded up: a share is a capacity that is needed."""
    assert len(by_share([instance(number) for number in range(40)], share, ())) == count


def test_who_costs_least_leaves_first_and_the_leader_last() -> None:
    assert by_share(GROUP, "2", ()) == [GROUP[1]]
    assert by_share(GROUP, "1", ()) == [GROUP[1], GROUP[2]]


def test_who_leaves_already_counts_as_gone() -> None:
    assert by_share(GROUP, "1", {GROUP[2].process_id}) == [GROUP[1]]


@pytest.mark.parametrize(
    ("share", "reason"),
    [
        ("0%", "nobody"),
        ("0", "nobody"),
        ("100%", "none would leave"),
        ("80%", "none would leave"),
        ("3", "none would leave"),
        ("half", "neither a percentage"),
        ("-1", "neither a percentage"),
        ("1.5", "neither a percentage"),
    ],
)
def test_shares_that_cannot_be_meant_are_refused(share: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        by_share(GROUP, share, ())


def test_somebody_has_to_stay() -> None:
    check_somebody_stays(GROUP, GROUP[:2], ())
    with pytest.raises(UsageError, match="leave nobody"):
        check_somebody_stays(GROUP, GROUP, ())
    with pytest.raises(UsageError, match="leave nobody"):
        check_somebody_stays(GROUP, GROUP[:2], {GROUP[2].process_id})


def test_progress_of_an_instance() -> None:
    """Its tasks, and what the others have learned of them; learners of other tasks do not count."""
    going = instance(2, *active(2, 5), leaving=True)
    group = GroupOverview(
        "app",
        "Stable",
        "stream",
        (instance(1, *active(0), learner(2, 40), learner(5, 0, "ready")), going, instance(3, learner(0, 900))),
    )
    assert progress(group, going.process_id, "pod-2") == Departure(going.process_id, "pod-2", True, False, 2, 2, 1, 40)
    assert said_leaving(group.instances) == {going.process_id}
    first = progress(group, group.instances[0].process_id, "pod-1")
    assert (first.told, first.learners, first.learners_lag_records) == (False, 1, 900)
    gone = progress(group, str(UUID(int=9)), "pod-9")
    assert (gone.gone, gone.told, gone.tasks_left, gone.learners_lag_records) == (True, False, 0, None)
