"""What generated code calls for tables: old values that outlive changes in place, and changes of a row's group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kstreams_worker.topology.nodes import AggregateNode, ReduceNode, TableAggregateNode, TableNode, TableReduceNode

Change = tuple[Any, Any]
"""`(new value, old value)`."""


def snapshot_of(node: TableNode) -> Callable[[Any], Any] | None:
    """How to keep a step's present value while it is replaced; None where the value itself will do.

    Folding functions may change an aggregate in place, so aggregates of mutable types are copied by way of their serde.
    """
    folds = isinstance(node, AggregateNode | ReduceNode | TableAggregateNode | TableReduceNode)
    if not folds or node.value is None or not node.value.mutable:
        return None
    encode, decode = node.value.encode, node.value.decode

    def snapshot(value: Any) -> Any:
        return None if value is None else decode(encode(value))

    return snapshot


def forget_committed(before: dict[bytes, Any], dirty: dict[bytes, list[Any]]) -> None:
    """Drops the old values of keys that are no longer dirty."""
    for raw_key in before.keys() - dirty.keys():
        del before[raw_key]


def regrouping(selector: Callable[[Any, Any], tuple[Any, Any]]) -> Callable[[Any, Any, Any], list[tuple[Any, Change]]]:
    """The change of a row as changes of groups: one if it stays in its group, else the leaving before the coming.

    Rows that `selector` gives a null key or value belong to no group.
    """

    def regroup(key: Any, new: Any, old: Any) -> list[tuple[Any, Change]]:
        old_group, old_value = (None, None) if old is None else selector(key, old)
        new_group, new_value = (None, None) if new is None else selector(key, new)
        leaves = old_group is not None and old_value is not None
        comes = new_group is not None and new_value is not None
        if leaves and comes and old_group == new_group:
            return [(new_group, (new_value, old_value))]
        changes: list[tuple[Any, Change]] = []
        if leaves:
            changes.append((old_group, (None, old_value)))
        if comes:
            changes.append((new_group, (new_value, None)))
        return changes

    return regroup
