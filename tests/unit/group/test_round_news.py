"""Which tasks a member suspends before a round, by what it knows of the round's cause."""

from __future__ import annotations

from assignor.model import TaskId
from kstreams_worker.control.records import Nudge
from kstreams_worker.group.round_news import RoundNews

FIRST, SECOND, THIRD = TaskId(0, 1), TaskId(0, 2), TaskId(0, 3)
LEARNED = frozenset({FIRST, SECOND})


def news(generation: int = 4, *, rejoin: bool = False) -> RoundNews:
    begun = RoundNews()
    begun.begin(generation, rejoin=rejoin)
    return begun


def nudge(*ready: TaskId, generation: int = 4) -> Nudge:
    return Nudge(generation=generation, member="other", ready=tuple(map(str, ready)))


def test_without_a_nudge_all_that_is_being_learned_is_suspended() -> None:
    """The round was noticed by a heartbeat, and any of the learners may be ready."""
    assert news().to_suspend(LEARNED) == LEARNED


def test_a_nudge_that_knows_no_cause_explains_nothing() -> None:
    heard = news()
    assert heard.hear(Nudge(generation=4, member="other"))
    assert heard.to_suspend(LEARNED) == LEARNED


def test_only_tasks_whose_learner_is_ready_are_suspended() -> None:
    """Others that are being learned go on through the round; of what is not here there is nothing to suspend."""
    heard = news()
    assert heard.hear(nudge(FIRST, THIRD))
    assert heard.to_suspend(LEARNED) == {FIRST}
    assert heard.hear(nudge(SECOND))
    assert heard.to_suspend(LEARNED) == LEARNED


def test_a_newcomer_or_a_departure_suspends_nothing() -> None:
    heard = news()
    assert heard.hear(nudge())
    assert heard.to_suspend(LEARNED) == frozenset()


def test_a_round_that_the_leader_asked_for_suspends_all() -> None:
    """It has seen a ready learner of a task that was running: the nudge was wrong, or it was lost."""
    heard = news(rejoin=True)
    heard.hear(nudge())
    assert heard.to_suspend(LEARNED) == LEARNED


def test_nudges_of_other_generations_are_old_news() -> None:
    """Read late, by a worker that stood still: the round that they announced is over."""
    heard = news(generation=5)
    assert not heard.hear(nudge(FIRST, generation=4))
    assert not heard.hear(nudge(FIRST, generation=6))
    assert heard.to_suspend(LEARNED) == LEARNED


def test_a_nudge_may_come_before_the_assignment() -> None:
    """Its sender had its own a moment earlier; the next round is on already."""
    heard = news(generation=4)
    assert not heard.hear(nudge(FIRST, generation=5))
    assert heard.begin(5, rejoin=False)
    assert heard.to_suspend(LEARNED) == {FIRST}
    assert not heard.begin(6, rejoin=False)


def test_a_new_generation_forgets_what_was_said_in_the_last() -> None:
    heard = news()
    heard.hear(nudge())
    heard.begin(5, rejoin=False)
    assert heard.to_suspend(LEARNED) == LEARNED


def test_who_starts_a_round_says_which_of_its_learners_are_ready() -> None:
    """Once; again only when there is more to say."""
    own = news()
    assert own.start("me", frozenset({THIRD})) == Nudge(generation=4, member="me", ready=("0_3",))
    assert own.start("me", frozenset({THIRD})) is None
    assert own.start("me", frozenset({FIRST, THIRD})) == Nudge(generation=4, member="me", ready=("0_1", "0_3"))
    assert own.to_suspend(LEARNED) == {FIRST}


def test_who_notices_a_round_first_tells_the_others() -> None:
    own = news()
    assert own.notice("me") == Nudge(generation=4, member="me")
    assert own.notice("me") is None
    assert own.start("me", frozenset()) == Nudge(generation=4, member="me", ready=())


def test_who_was_told_of_a_round_does_not_tell_it_again() -> None:
    own = news()
    own.hear(nudge(FIRST))
    assert own.notice("me") is None


def test_who_has_no_generation_yet_says_nothing() -> None:
    assert RoundNews().start("me", frozenset()) is None
    assert RoundNews().notice("me") is None
