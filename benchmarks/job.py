"""What every contestant of `count` is asked to do: count the records of each key of a topic, for good."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Guarantee = Literal["exactly_once_v2", "at_least_once"]


@dataclass(frozen=True, slots=True)
class Job:
    """One job. Values are JSON and have to be parsed; a count is written as eight bytes, big-endian."""

    servers: str
    group: str
    """The consumer group whose committed offsets tell the progress."""
    source: str
    sink: str
    changelog: str
    """For those that do not name their own."""
    partitions: int
    directory: Path
    """For state on disk; empty at first."""
    guarantee: Guarantee = "exactly_once_v2"
    every_update: bool = False
    """Write each new count at once. Otherwise: a key's newest count, when a commit is due."""
    commit_interval_ms: int = 500

    def environment(self) -> dict[str, str]:
        """How it is told to a process, of whatever language."""
        return {
            "BENCH_SERVERS": self.servers,
            "BENCH_GROUP": self.group,
            "BENCH_SOURCE": self.source,
            "BENCH_SINK": self.sink,
            "BENCH_CHANGELOG": self.changelog,
            "BENCH_PARTITIONS": str(self.partitions),
            "BENCH_DIRECTORY": str(self.directory),
            "BENCH_GUARANTEE": self.guarantee,
            "BENCH_EVERY_UPDATE": str(int(self.every_update)),
            "BENCH_COMMIT_INTERVAL_MS": str(self.commit_interval_ms),
        }

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Job:
        """The other side of `environment`."""
        return cls(
            servers=environment["BENCH_SERVERS"],
            group=environment["BENCH_GROUP"],
            source=environment["BENCH_SOURCE"],
            sink=environment["BENCH_SINK"],
            changelog=environment["BENCH_CHANGELOG"],
            partitions=int(environment["BENCH_PARTITIONS"]),
            directory=Path(environment["BENCH_DIRECTORY"]),
            guarantee="at_least_once" if environment["BENCH_GUARANTEE"] == "at_least_once" else "exactly_once_v2",
            every_update=environment["BENCH_EVERY_UPDATE"] == "1",
            commit_interval_ms=int(environment["BENCH_COMMIT_INTERVAL_MS"]),
        )
