"""Instances leave under load: others learn their tasks first, and nothing is lost, doubled or stopped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.application import ALL_TASKS, Application, application
from harness.instances import Instance

from kstreams_worker.testing.broker import RunningKafka

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

HANDED_OVER = "all tasks are handed over"
OUT_OF_TIME = "others had the time they were given to learn the tasks"


@pytest.fixture
def counting(kafka: RunningKafka, tmp_path: Path) -> Iterator[Application]:
    with application(kafka, tmp_path) as app:
        app.feeder.burst(5_000)
        yield app


def start_balanced(app: Application, count: int, **settings: object) -> list[Instance]:
    """So many instances that share all tasks, one after the other, while the input flows."""
    started = [app.start(**settings)]
    app.feeder.start()
    app.until_balanced(*started)
    for _ in range(count - 1):
        started.append(app.start(**settings))
        app.until_balanced(*started)
    app.until_counted()
    return started


def assert_left(instance: Instance, reason: str = HANDED_OVER) -> None:
    """It ended by itself, with exit code 0, because it had left."""
    assert instance.wait() == 0, instance.describe()
    assert [line["reason"] for line in instance.log("leaving the group for good")] == [reason], instance.describe()


def assert_came_by_learners(instance: Instance, rounds_before: int) -> None:
    """All tasks that it took over in later rounds had been learned: it opened none of them cold."""
    cold = [
        line for line in instance.log("round")[rounds_before:] if {*line["open"].split()} & {*line["active"].split()}
    ]
    assert not cold, instance.describe()


def test_scale_down_by_the_tool(counting: Application) -> None:
    """The ordered instance is gone when the tool ends; what it had was learned by others; it may be started again."""
    first, second, third = start_balanced(counting, 3)

    rounds = [len(instance.log("round")) for instance in (first, third)]
    said = counting.scale_down(second)

    assert "ordered to leave" in said
    assert said.rstrip().endswith("gone")
    assert_left(second)
    counting.until_balanced(first, third)
    for stays, before in zip((first, third), rounds, strict=True):
        assert_came_by_learners(stays, before)
    counting.until_counted()

    second.start()
    counting.until_balanced(first, second, third)
    counting.finish()


def test_standbys_become_the_learners(counting: Application) -> None:
    """Where a warm copy of a leaving member's task is, it learns the task: nothing is opened, nothing restored twice."""
    first, second = start_balanced(counting, 2, num_standby_tasks=1)
    for one, other in ((first, second), (second, first)):
        counting.until(
            lambda one=one, other=other: one.tasks("standby", "ready") == other.tasks(), "the standbys are warm"
        )
    moving, rounds_before = second.tasks(), len(first.log("round"))

    counting.scale_down(second)

    assert_left(second)
    counting.until_balanced(first)
    rounds = first.log("round")[rounds_before:]
    assert {task for line in rounds for task in line["learning"].split()} == set(moving)
    assert {task for line in rounds for task in line["promote"].split()} == set(moving)
    assert not [line for line in rounds if line["open"]]
    counting.finish()


def test_a_full_host_swap(counting: Application) -> None:
    """Three new instances join, then the three old ones are told to leave, all at once."""
    old = start_balanced(counting, 3)
    new = [counting.start() for _ in range(3)]
    counting.until(lambda: sum(len(instance.log("round")) > 0 for instance in new) == 3, "the new ones have joined")

    counting.scale_down(*old)

    for instance in old:
        assert_left(instance)
    counting.until_balanced(*new)
    counting.until_counted()
    counting.finish()


def test_an_order_is_taken_back(counting: Application) -> None:
    """It stays and keeps its tasks, what others had begun to learn for it is closed, and it heeds a later order."""
    first, second = start_balanced(counting, 2)
    kept = second.tasks()
    with counting.held_state(first, tasks=kept):
        counting.scale_down(second, options=("--no-wait",))
        counting.until(lambda: first.log("round")[-1]["learning"].split() == kept, "its tasks are being learned")
        learning = len(first.log("round"))
        assert second.is_running

        taken_back = counting.command("scale-down", "--cancel")
        assert taken_back.returncode == 0, taken_back.stderr
        assert "order taken back" in taken_back.stdout
        second.wait_for_log("the order to leave was taken back")
        closing = first.wait_for_log("round", count=learning + 1)[learning]
        assert (closing["learning"], closing["close"].split()) == ("", kept)
        counting.until_counted()
    counting.until_counted()
    assert second.tasks() == kept
    assert [line["close"] for line in second.log("round")] == [""] * len(second.log("round"))
    assert "there is no order" in counting.command("scale-down", "--cancel").stdout

    counting.scale_down(second)
    assert_left(second)
    counting.until_balanced(first)
    counting.finish()


def test_patience_to_leave_ends(counting: Application) -> None:
    """Past the timeout it leaves at once, and the learner, though not ready, takes over."""
    first, second = start_balanced(counting, 2)
    moving = second.tasks()
    with counting.held_state(first, tasks=moving):
        said = counting.scale_down(second, options=("--timeout", "3s"))
        assert "0 of 2 learners ready" in said
        assert_left(second, OUT_OF_TIME)
        taken = first.wait_for_log("round", active=" ".join(ALL_TASKS))[-1]
        assert taken["promote"].split() == moving
    counting.until_balanced(first)
    counting.until_counted()
    counting.finish()


def test_the_leader_heeds_the_deadline_of_one_that_cannot(counting: Application, tmp_path: Path) -> None:
    """A static member is stuck in a record when its time is up: the leader starts the round, which takes its tasks away.

    Nobody else may run them before the stuck one has stopped. It leaves as soon as it can.
    """
    topology, blocker = "harness.topologies:counts_with_a_slow_step", tmp_path / "blocked"
    leader = counting.start(topology, group_instance_id="host-1")
    counting.feeder.start()
    counting.until_balanced(leader)
    stuck = counting.start(topology, group_instance_id="host-2", environment={"BLOCKED_BY": str(blocker)})
    counting.until_balanced(leader, stuck)
    moving = stuck.tasks()
    with counting.held_state(leader, tasks=moving):
        counting.scale_down(stuck, options=("--no-wait", "--timeout", "20s"))
        counting.until(lambda: leader.log("round")[-1]["learning"].split() == moving, "its tasks are being learned")
        rounds = len(leader.log("round"))
        blocker.touch()
        counting.until((tmp_path / "blocked.reached").exists, "it is stuck")

        leader.wait_for_log("a leaving member has stayed past its deadline; starting a round")
        after = leader.wait_for_log("round", count=rounds + 1)
        assert [line["leader"] for line in after[rounds:]] == [True]
        assert after[-1]["learning"].split() == moving
        explained = counting.command("explain").stdout
        assert f"{len(moving)} taken away, to be handed on" in explained, explained
        assert "its owner's patience to leave has ended" in explained
        assert not stuck.log("leaving the group for good")

        blocker.unlink()
        assert_left(stuck, OUT_OF_TIME)
        assert leader.wait_for_log("round", active=" ".join(ALL_TASKS))[-1]["promote"].split() == moving
    counting.until_balanced(leader)
    counting.until_counted()
    counting.finish()
    assert len(leader.log("a leaving member has stayed past its deadline; starting a round")) == 1


def test_sigterm_hands_over(counting: Application) -> None:
    """on.sigterm=handover: a container platform's ordinary stop, with no tool. The last instance just closes."""
    first, second = start_balanced(counting, 2, on_sigterm="handover")

    rounds = len(first.log("round"))
    second.terminate()

    assert_left(second)
    counting.until_balanced(first)
    assert_came_by_learners(first, rounds)
    counting.until_counted()
    counting.finish()
    assert_left(first, "no other instance may take the tasks")


def test_a_second_sigterm_closes_at_once(counting: Application) -> None:
    first, second = start_balanced(counting, 2, on_sigterm="handover")
    moving = second.tasks()
    with counting.held_state(first, tasks=moving):
        second.terminate()
        counting.until(lambda: first.log("round")[-1]["learning"].split() == moving, "its tasks are being learned")
        second.wait_for_log("Still waiting for workers")  # by now a second signal is a second request
        second.terminate()
        assert second.wait() == 0, second.describe()
        assert not second.log("leaving the group for good")
    counting.until_balanced(first)
    counting.finish()


def test_all_instances_are_told_to_stop_at_once(counting: Application) -> None:
    """There is nobody to hand over to, and nobody waits for that."""
    instances = start_balanced(counting, 2, on_sigterm="handover")
    counting.until_complete()
    for instance in instances:
        instance.terminate()
    for instance in instances:
        assert instance.wait() == 0, instance.describe()
    counting.finish()


def test_a_rolling_restart_with_handover(counting: Application) -> None:
    """Each instance hands over, is started again and learns its share back."""
    instances = start_balanced(counting, 3, on_sigterm="handover")
    for instance in instances:
        instance.terminate()
        assert_left(instance)
        counting.until_balanced(*(other for other in instances if other is not instance))
        instance.start()
        counting.until_balanced(*instances)
        counting.until_counted()
    counting.finish()


def test_a_rolling_restart_with_static_membership(counting: Application) -> None:
    """A bounce is no round: nobody else notices, and no task moves."""
    instances: list[Instance] = []
    for number in range(3):
        instances.append(counting.start(group_instance_id=f"host-{number}"))
        if number == 0:
            counting.feeder.start()
        counting.until_balanced(*instances)
    counting.until_counted()
    before = {instance.name: instance.tasks() for instance in instances}
    for instance in instances:
        others = [other for other in instances if other is not instance]
        rounds = [len(other.log("round")) for other in others]
        generation = instance.log("round")[-1]["generation"]

        assert instance.close() == 0, instance.describe()
        instance.start()
        counting.until(lambda instance=instance: instance.tasks() == before[instance.name], "it has its tasks again")
        counting.until_counted()

        assert [line["generation"] for line in instance.log("round")] == [generation]
        assert [len(other.log("round")) for other in others] == rounds
        assert instance.metric("kstreams_restore_records_total") == 0
    counting.finish()


def test_a_static_member_leaves_for_good(counting: Application) -> None:
    """On an order it is taken out of the group explicitly: nobody waits for a session of minutes to end."""
    first = counting.start(group_instance_id="host-1")
    counting.feeder.start()
    counting.until_balanced(first)
    second = counting.start(group_instance_id="host-2")
    counting.until_balanced(first, second)
    counting.until_counted()
    counting.scale_down(second)
    assert_left(second)
    counting.until_balanced(first)
    counting.until_counted()
    counting.finish()


def test_the_tool_refuses_what_cannot_be_meant(counting: Application) -> None:
    """Each time one line that says what to do, and no order is given."""
    [only] = start_balanced(counting, 1)
    refusals = {
        ("--instances", "nobody"): "no instance of the group is called 'nobody'",
        ("--instances", only.process_id): "this would leave nobody",
        ("--to", "0%"): "would leave nobody",
        ("--to", "50%"): "none would leave",
        (): "say which instances are to leave",
    }
    for arguments, reason in refusals.items():
        refused = counting.command("scale-down", *arguments)
        assert refused.returncode == 2, refused.stdout
        assert reason in refused.stderr
        assert refused.stderr.count("\n") == 1
    counting.until_counted()
    assert not only.log("leaving: processing goes on until others have learned the tasks")
    counting.finish()
