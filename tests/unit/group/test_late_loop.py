"""What a round gave a member is its own from then on, also while its loop is busy."""

from __future__ import annotations

from assignor.model import Assignment, InstanceId, Subscription, TaskId, WorkerId
from kstreams_worker.group.claims import Claims

MINE, GIVEN = TaskId(0, 0), TaskId(0, 1)
SAID = Subscription(worker=WorkerId(InstanceId(bytes(16)), 0), topology=bytes(8), active=frozenset({MINE}))


def test_what_the_loop_has_not_seen_is_claimed_until_it_has_acted_on_it() -> None:
    claims, given = Claims(), Assignment(active=frozenset({MINE, GIVEN}), being_learned=frozenset({GIVEN}))
    claims.assigned(given)
    assert claims.to_say(SAID).active == {MINE, GIVEN}
    assert claims.being_learned(frozenset({MINE})) == {MINE, GIVEN}
    claims.applied(given)
    assert claims.to_say(SAID) == SAID
    assert claims.being_learned(frozenset({MINE})) == {MINE}


def test_acting_on_an_older_assignment_leaves_the_newest_claimed() -> None:
    """The loop was two rounds behind."""
    claims, older = Claims(), Assignment(active=frozenset({MINE}))
    claims.assigned(older)
    claims.assigned(Assignment(active=frozenset({GIVEN})))
    claims.applied(older)
    assert claims.to_say(SAID).active == {MINE, GIVEN}


def test_a_membership_that_is_over_claims_nothing() -> None:
    claims = Claims()
    claims.assigned(Assignment(active=frozenset({GIVEN})))
    claims.drop()
    assert claims.to_say(SAID) == SAID
