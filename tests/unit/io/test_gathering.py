"""How long input may gather on the brokers."""

from __future__ import annotations

import pytest

from kstreams_worker.io.consumer import FETCH_WAIT_MS, RecordConsumer, gathering


@pytest.mark.parametrize(
    ("commit_interval_ms", "wait_ms"), [(1, 1), (100, 25), (500, FETCH_WAIT_MS), (30_000, FETCH_WAIT_MS)]
)
def test_records_wait_for_others_no_longer_than_a_part_of_the_commit_interval(
    commit_interval_ms: int, wait_ms: int
) -> None:
    """And never longer than a fetch that finds nothing: a newly assigned partition waits behind it."""
    assert gathering(commit_interval_ms)["fetch.wait.max.ms"] == wait_ms


def test_the_client_takes_these_settings() -> None:
    """It refuses unknown names when it is made."""
    config = {"bootstrap.servers": "127.0.0.1:1", **gathering(100)}
    RecordConsumer(config, group_id="group", client_id="client", read_committed=True).close()
