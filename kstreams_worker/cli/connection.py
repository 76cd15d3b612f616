"""How commands reach the brokers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kstreams_worker.config import Settings
    from kstreams_worker.group.client import GroupClient
    from kstreams_worker.io.admin import Admin


@dataclass(frozen=True, slots=True)
class Connection:
    """`group` for questions about groups, `admin` for topics and their offsets."""

    group: GroupClient
    admin: Admin


@contextmanager
def connected(settings: Settings) -> Iterator[Connection]:
    """Both clients, for the length of a `with` block. Raises BrokerError if no broker can be reached."""
    from kstreams_worker.group.client import GroupClient  # noqa: PLC0415 - `--help` stays fast
    from kstreams_worker.io.admin import Admin  # noqa: PLC0415

    admin = Admin(settings.client_config("admin"), client_id="kstreams-tool")
    admin.require_brokers()  # first, since it can tell why they cannot be reached, and the other client cannot
    with GroupClient.connect(settings.group_plane_config()) as group:
        yield Connection(group, admin)
