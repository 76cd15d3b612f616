"""When a client counts as lost, as far as that needs no brokers; where they are, see tests/broker/test_lost_brokers.py."""

from __future__ import annotations

import threading

from confluent_kafka import KafkaError, KafkaException
from harness.waiting import until

from kstreams_worker.io.lifeline import SILENCE_S, Lifeline

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


class Client:
    """Finds its brokers or not, when it may answer at all."""

    def __init__(self, *, finds: bool) -> None:
        self.finds = finds
        self.asked: list[str] = []
        self.may_answer = threading.Event()
        self.may_answer.set()

    def list_topics(self, topic: str, /, *, timeout: float) -> object:
        self.asked.append(topic)
        assert self.may_answer.wait(30)
        if not self.finds:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return object()


class Clock:
    """Stands still until a silence has passed."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def pass_silence(self) -> None:
        self.now_s += SILENCE_S


def is_found_out(lifeline: Lifeline) -> bool:
    """Whether the question that is under way has been answered; the answer must be no."""
    assert not lifeline.is_lost("input")
    return lifeline._answer is None


def test_a_client_that_was_just_heard_of_is_not_asked() -> None:
    client = Client(finds=False)
    lifeline = Lifeline(client, NOBODY, clock=Clock())
    assert not lifeline.is_lost("input")
    assert client.asked == []


def test_one_that_is_silent_and_finds_its_brokers_is_not_lost() -> None:
    """There is nothing to read, that is all. It is asked on another thread: whoever waits for it goes on waiting."""
    client = Client(finds=True)
    client.may_answer.clear()
    lifeline = Lifeline(client, NOBODY, clock=(clock := Clock()))
    clock.pass_silence()
    assert not lifeline.is_lost("input")
    assert not lifeline.is_lost("input")
    client.may_answer.set()
    until(lambda: is_found_out(lifeline), "it is known")
    assert client.asked[0] == "input"


def test_none_is_lost_where_nobody_finds_the_brokers() -> None:
    """They are away. Another client would be no better off."""
    client = Client(finds=False)
    lifeline = Lifeline(client, NOBODY, clock=(clock := Clock()))
    clock.pass_silence()
    assert not lifeline.is_lost("input")
    until(lambda: is_found_out(lifeline), "it is known")
    assert client.asked == ["input"]


def test_it_is_asked_again_after_the_next_silence_only() -> None:
    client = Client(finds=True)
    lifeline = Lifeline(client, NOBODY, clock=(clock := Clock()))
    for times in (1, 2):
        clock.pass_silence()
        assert not lifeline.is_lost("input")
        until(lambda: is_found_out(lifeline), "it is known")
        assert not lifeline.is_lost("input")
        assert len(client.asked) == times


def test_a_client_is_ended_at_once_unless_it_is_being_asked() -> None:
    """Its end would pull the ground from under a call that is in it."""
    client = Client(finds=True)
    lifeline, ended = Lifeline(client, NOBODY, clock=(clock := Clock())), threading.Event()
    clock.pass_silence()
    client.may_answer.clear()
    lifeline.is_lost("input")
    lifeline.end(ended.set)
    assert not ended.is_set()
    client.may_answer.set()
    assert ended.wait(30)

    ended.clear()
    Lifeline(client, NOBODY).end(ended.set)
    assert ended.is_set()
