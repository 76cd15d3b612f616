"""What is written to an input topic: a source of numbered records, which hands out any stretch of them as a DataFrame."""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import DataFrame


class RecordSource(Protocol):
    """Records numbered from 0, the same ones at each call. Called from several threads."""

    @property
    def total(self) -> int | None:
        """How many there are; None: any number."""
        ...

    def stretch(self, first: int, count: int, tasks: int) -> DataFrame:
        """Records `first` to `first + count - 1`, spread over about `tasks` tasks.

        Columns: index (bigint, in order within each task), key (string), value (string).
        """
        ...
