"""What was read of several partitions and not handed out yet, and how it is shared out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from kstreams_worker.topology.records import Partition

Item = TypeVar("Item")


class ReadAhead(Generic[Item]):
    """Queues, one for each partition that has something waiting.

    A client hands out what it fetched in the order in which it came, thousands of records of one partition at a time: a
    task with a backlog would keep all others waiting for seconds. So all partitions get a share each time.
    """

    def __init__(self) -> None:
        self._waiting: dict[Partition, list[Item]] = {}
        self.size = 0
        """Items of all partitions."""

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._waiting

    @property
    def partitions(self) -> int:
        """How many partitions have something waiting."""
        return len(self._waiting)

    def add(self, partition: Partition, items: list[Item]) -> None:
        """Put items at the end of the partition's queue; the list is kept."""
        waiting = self._waiting.get(partition)
        if waiting is None:
            self._waiting[partition] = items
        else:
            waiting += items
        self.size += len(items)

    def drop(self, partitions: Iterable[Partition]) -> None:
        """Forget what waits of these partitions."""
        for partition in partitions:
            self.size -= len(self._waiting.pop(partition, ()))

    def take(self, most: int) -> list[tuple[Partition, list[Item]]]:
        """Up to `most` items, from the front of each partition's queue, at most one list for each partition.

        Shares are equal; what a short queue does not use up is for the longer ones. With fewer items than partitions to
        hand out, the partitions take turns.
        """
        waiting, left = self._waiting, most
        shortest_first = sorted(waiting, key=lambda partition: len(waiting[partition]))
        order = shortest_first if most >= len(waiting) else list(waiting)
        taken = []
        for position, partition in enumerate(order):
            share = -(-left // (len(order) - position))
            if share == 0:
                break
            items = waiting.pop(partition)
            if len(items) > share:
                waiting[partition] = items  # behind the others, for the next turn
                items = items[:share]
                del waiting[partition][:share]
            taken.append((partition, items))
            left -= len(items)
        self.size -= most - left
        return taken
