"""How long things take, in simulated time. The defaults are the runtime's own, and what a quiet machine shows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """Times in milliseconds, rates in records per second."""

    heartbeat_interval_ms: int = 500
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 60_000
    initial_delay_ms: int = 0
    """The broker's group.initial.rebalance.delay.ms."""
    network_ms: tuple[float, float] = (1, 5)
    """One way, between these two."""
    loop_ms: tuple[float, float] = (1, 20)
    """Until the processing loop sees an event."""
    leader_ms: float = 50
    """The leader's work in a round."""
    prepare_timeout_ms: int = 2_000
    """How long a round waits for a busy loop to suspend tasks."""
    take_over_ms: float = 50
    """From a complete state to processing: committed offsets, the changelog's end, fencing."""
    close_ms: float = 5
    """Until the restore thread has closed a task's state."""
    ready_retry_ms: int = 5_000
    restart_ms: tuple[float, float] = (500, 5_000)
    """Until a supervisor has restarted a worker."""
    restore_records_s: float = 100_000
    """What one worker restores, over all its tasks."""
    acceptable_lag: int = 10_000
