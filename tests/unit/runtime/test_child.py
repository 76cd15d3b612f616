"""The worker's pipe: nothing is lost, nothing blocks, and its end is noticed."""

import threading
from multiprocessing import Pipe

from kstreams_worker.observe.status import WorkerStatus
from kstreams_worker.runtime.child import MessageSender, ParentWatch

DEADLINE_SECONDS = 30.0


def status(generation: int) -> WorkerStatus:
    return {
        "state": "stable",
        "ready": True,
        "member_id": "m",
        "generation": generation,
        "loop_turns": generation,
        "tasks": [],
    }


def test_a_supervisor_that_does_not_read_never_holds_up_the_worker() -> None:
    """Far more than a pipe holds is reported without waiting; later the newest status and every other message arrive."""
    ours, theirs = Pipe(duplex=True)
    sender = MessageSender(theirs)
    for generation in range(200):
        sender.status(status(generation), "x" * 100_000)
    sender.member("m-1")
    sender.fatal("broken", 1)

    received = []
    while not received or received[-1]["type"] != "fatal":
        assert ours.poll(DEADLINE_SECONDS)
        received.append(ours.recv())
    sender.close()
    while ours.poll(0):
        received.append(ours.recv())

    statuses = [message for message in received if message["type"] == "status"]
    assert [message["type"] for message in received if message["type"] != "status"] == ["member", "fatal"]
    assert statuses[-1]["status"]["generation"] == 199
    assert len(statuses) < 200, "statuses that were replaced before they could be sent are not sent"


def test_a_supervisor_that_is_gone_is_no_error_for_the_sender() -> None:
    ours, theirs = Pipe(duplex=True)
    ours.close()
    sender = MessageSender(theirs)
    sender.member("m-1")
    sender.close(DEADLINE_SECONDS)
    sender.fatal("nobody hears", 1)


def test_the_end_of_the_pipe_is_noticed_once() -> None:
    ours, theirs = Pipe(duplex=True)
    gone = threading.Event()
    ParentWatch(theirs, gone.set).start()
    assert not gone.is_set()
    ours.close()
    assert gone.wait(DEADLINE_SECONDS)
