"""What errors of the membership mean, and what to do about them."""

from __future__ import annotations

import kafka.errors as kafka_errors

from kstreams_worker.errors import GroupError


def is_passing(error: kafka_errors.KafkaError) -> bool:
    """Whether joining again may help."""
    return bool(getattr(error, "retriable", False)) or isinstance(
        error,
        (
            kafka_errors.RetriableError,
            kafka_errors.UnknownMemberIdError,
            kafka_errors.IllegalGenerationError,
            kafka_errors.RebalanceInProgressError,
        ),
    )


def explained(error: Exception, group_id: str) -> Exception:
    """What a membership that is refused means, and what to do about it."""
    advice = {
        kafka_errors.InconsistentGroupProtocolError: (
            f"group {group_id} is in use with another protocol type: set stream.rebalancing.mode=upgrading to join a "
            "group of protocol type 'consumer', or choose another application.id"
        ),
        kafka_errors.FencedInstanceIdError: (
            f"another member of group {group_id} uses this group.instance.id: give each instance its own"
        ),
        kafka_errors.GroupAuthorizationFailedError: f"no right to read group {group_id}: grant READ on it to this user",
        kafka_errors.GroupMaxSizeReachedError: (
            f"group {group_id} is full: raise group.max.size on the brokers, or run fewer workers"
        ),
        kafka_errors.InvalidSessionTimeoutError: (
            "session.timeout.ms is outside what the brokers allow (group.min.session.timeout.ms to "
            "group.max.session.timeout.ms)"
        ),
    }
    if type(error) in advice:
        return GroupError(advice[type(error)])
    if isinstance(error, kafka_errors.KafkaError):
        return GroupError(f"membership in group {group_id} failed: {type(error).__name__}: {error}")
    return error
