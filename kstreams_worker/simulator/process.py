"""A process that lives, stands still (SIGSTOP, a long pause of the machine) or is dead."""

from __future__ import annotations

from enum import Enum, auto

from kstreams_worker.machine import Machine, Table
from kstreams_worker.simulator.clock import Action, Clock, Timer


class ProcessState(Enum):
    """What a process is doing."""

    ALIVE = auto()
    PAUSED = auto()
    DEAD = auto()


class ProcessEvent(Enum):
    """What is done to a process."""

    PAUSE = auto()
    RESUME = auto()
    KILL = auto()


_S, _E = ProcessState, ProcessEvent

PROCESS_TABLE: Table[ProcessState, ProcessEvent] = {
    _S.ALIVE: {_E.PAUSE: _S.PAUSED, _E.KILL: _S.DEAD},
    _S.PAUSED: {_E.RESUME: _S.ALIVE, _E.KILL: _S.DEAD},
    _S.DEAD: {},
}


class Process:
    """Things happen in it only while it lives; while it stands still they wait."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.machine = Machine("process", PROCESS_TABLE, ProcessState.ALIVE)
        self._waiting: list[Action] = []

    @property
    def dead(self) -> bool:
        return self.machine.state is ProcessState.DEAD

    @property
    def alive(self) -> bool:
        return self.machine.state is ProcessState.ALIVE

    def deliver(self, action: Action) -> None:
        """Let something happen in this process now, or as soon as it goes on."""
        if self.alive:
            action()
        elif not self.dead:
            self._waiting.append(action)

    def after(self, delay_ms: float, action: Action) -> Timer:
        """Let something happen in this process after a while."""
        return self.clock.after(delay_ms, lambda: self.deliver(action))

    def pause(self) -> None:
        """Stand still."""
        self.machine.fire(ProcessEvent.PAUSE)

    def resume(self) -> None:
        """Go on with what has come meanwhile."""
        self.machine.fire(ProcessEvent.RESUME)
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            self.deliver(action)

    def kill(self) -> None:
        """The end."""
        self.machine.fire(ProcessEvent.KILL)
        self._waiting.clear()
