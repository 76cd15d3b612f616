"""The last round of a live group, made of what the broker keeps of it: what members said, what they were given, and the
leader's reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assignor.explain import member_names
from assignor.model import LagRecords, MemberId, RoundResult, TaskId
from assignor.recount import copy_lags, recount
from kstreams_worker.group.events import GroupDescription


@dataclass(frozen=True, slots=True)
class LastRound:
    """A round as it was decided, with the names by which people know its members."""

    result: RoundResult
    names: Mapping[MemberId, str]
    lags: Mapping[TaskId, LagRecords]
    """Records that who learns a task, or has just got it, lacked when it joined the round."""
    leader: str | None
    unreadable: tuple[str, ...]
    """Members whose metadata or assignment cannot be read: the round is told without them."""


def last_round(group: GroupDescription) -> LastRound:
    """Tell the round that gave the members of a settled group their assignments."""
    said = {MemberId(each.member_id): each.subscription for each in group.members if each.subscription is not None}
    given = {MemberId(each.member_id): each.assignment for each in group.members if each.assignment is not None}
    names = member_names(said)
    result = recount(said, given)
    return LastRound(
        result=result,
        names=names,
        lags=copy_lags(result, said),
        leader=next((names.get(member, member) for member, each in given.items() if each.sources), None),
        unreadable=tuple(
            each.member_id for each in group.members if each.subscription is None or each.assignment is None
        ),
    )
