"""Leaders of thousands of simulated rounds log nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog
from sim.campaign import be_quiet


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    before = structlog.get_config()
    be_quiet()
    yield
    structlog.configure(**before)
