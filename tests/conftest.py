"""Fixtures of all tests: `kafka` and `kafka_cluster` come from the plugin that users of the package get too."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import hypothesis
import pytest

from kstreams_worker.testing.broker import RunningKafka, embedded_kafka

pytest_plugins = ["kstreams_worker.testing.fixtures"]

# A shell's background jobs ignore Ctrl-C, and all that they start would too: tests of it would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples each time, so that a change is not blamed for what an unlucky draw finds. To look for more:
# HYPOTHESIS_PROFILE=explore.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=2_000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture(scope="module")
def own_kafka() -> Iterator[RunningKafka]:
    """A broker that a module may stop and freeze: not the one that the other tests share."""
    with embedded_kafka(1) as running:
        yield running
