"""Keys go to the partitions that Kafka's Java client sends them to."""

from __future__ import annotations

import pytest

from kstreams_worker.topology.partitioner import murmur2, partition_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_murmur2_equals_javas(text: str, expected: int) -> None:
    assert murmur2(text.encode()) == expected


def test_a_negative_hash_gives_a_partition() -> None:
    assert partition_of(b"21", 10) == (-973932308 & 0x7FFFFFFF) % 10
