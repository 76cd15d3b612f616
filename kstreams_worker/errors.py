"""Errors that a user or an operator sees. Each message names the thing and the next step; none shows a traceback.

`exit_code` is what the command line returns: 2 for a mistake in usage (settings, topology, arguments), 1 otherwise.
"""

from __future__ import annotations

from typing import ClassVar


class KStreamsError(Exception):
    """Base of all errors that are reported in one line (SettingsError: one for each setting). `str(error)` is that line."""

    exit_code: ClassVar[int] = 1


class UsageError(KStreamsError):
    """The caller asked for something that cannot work as written."""

    exit_code = 2


class SettingsError(UsageError):
    """An unknown setting, or a value that does not fit. Has one line for each setting that is wrong."""


class TopologyError(UsageError):
    """The topology is wrong; found when it is built. `location` is `file:line` of the call that caused it."""

    def __init__(self, message: str, location: str | None = None) -> None:
        super().__init__(f"{location}: {message}" if location else message)
        self.location = location


class BrokerError(KStreamsError):
    """The brokers cannot be reached, or refuse what we ask of them."""


class BrokersUnreachable(BrokerError):
    """No broker answers, or none lets this client in."""

    def __init__(self, reason: str, next_step: str) -> None:
        super().__init__(f"{reason}; {next_step}")
        self.reason = reason
        self.next_step = next_step


class GroupError(KStreamsError):
    """The consumer group refuses this member, or the leader does."""


class GroupAbsent(GroupError):
    """There is no such group."""


class TopicError(KStreamsError):
    """A topic is missing, or is not what the topology needs."""


class StateError(KStreamsError):
    """A state directory or store cannot be used."""


class RecordError(KStreamsError):
    """A record cannot be processed. Names topic, partition and offset."""

    def __init__(self, message: str, topic: str, partition: int, offset: int) -> None:
        super().__init__(f"{topic}[{partition}]@{offset}: {message}")
        self.topic = topic
        self.partition = partition
        self.offset = offset
