"""Names under which a worker is known to the brokers."""

from __future__ import annotations

from assignor.model import WorkerId


def transactional_id(application_id: str, worker: WorkerId) -> str:
    """The same for a worker and its successor in the same place, so that the successor fences it."""
    return f"{application_id}-{worker.instance.hex()}-{worker.index}"
