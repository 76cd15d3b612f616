"""Rounds written as tables: who joins with what, and what the leader assigns.

A line is `S2(assigned: [T4], revoked: [T3], learning: [])`, as KIP-429's drafts write it. `revoked` are the tasks that a
member has suspended. The drafts pick differently from one table to the next among tasks that one member owns and among
members that are alike, so tables are compared up to one renaming of these that holds for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product


@dataclass(frozen=True)
class Row:
    """One member's line: the tasks that it keeps, has suspended, learns."""

    assigned: frozenset[str] = frozenset()
    revoked: frozenset[str] = frozenset()
    learning: frozenset[str] = frozenset()


Rows = dict[str, Row]
Renaming = dict[str, str]


def rows(table: str) -> Rows:
    """The lines of a table; text after `//` is a remark."""
    found: Rows = {}
    for member, columns in re.findall(r"(\w+)\((.*?)\)", re.sub(r"//.*", "", table)):
        sets = {name: frozenset(re.findall(r"\w+", names)) for name, names in re.findall(r"(\w+): \[(.*?)\]", columns)}
        found[member] = Row(**sets)
    assert found, table
    return found


def renamings(groups: Iterable[Sequence[str]]) -> Iterator[Renaming]:
    """All renamings that exchange only names of the same group."""
    fixed = list(groups)
    for orders in product(*(permutations(group) for group in fixed)):
        yield {
            old: new for group, order in zip(fixed, orders, strict=True) for old, new in zip(group, order, strict=True)
        }


def renamed(table: Rows, renaming: Renaming) -> Rows:
    """A table with other names for its members and tasks."""

    def tasks(names: frozenset[str]) -> frozenset[str]:
        return frozenset(renaming.get(name, name) for name in names)

    return {
        renaming.get(member, member): Row(tasks(row.assigned), tasks(row.revoked), tasks(row.learning))
        for member, row in table.items()
    }


def without_revoked(table: Rows) -> Rows:
    """The table of an assignment, which has no such column of its own."""
    return {member: Row(assigned=row.assigned, learning=row.learning) for member, row in table.items()}


def show(table: Rows) -> str:
    """A table on one line, for messages."""
    return " ".join(
        f"{member}({' '.join(sorted(row.assigned))} | {' '.join(sorted(row.revoked))} | {' '.join(sorted(row.learning))})"
        for member, row in sorted(table.items())
    )
