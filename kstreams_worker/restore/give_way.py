"""How work on state gives way to the processing, in a worker that does both.

Both want the processor and Python's global lock, and the processing goes first: whoever works beside it takes a little at a
time, rests as long as that took, and lets go of the lock quickly.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

REST_MAX_S = 0.05
SHARED_SWITCH_S = 0.0005
"""How long a thread may keep Python's global lock from others that want it, while state is worked on beside the processing.
With the default of 5 ms each of the many short waits of the processing took that long; but that is cheaper for it alone."""


class GiveWay:
    """One per worker process. Used by the threads that restore and close stores."""

    def __init__(self, is_processing: Callable[[], bool]) -> None:
        """`is_processing` tells whether the worker has tasks that run."""
        self.is_processing = is_processing
        self._default_switch_s = sys.getswitchinterval()
        self._beside: set[object] = set()
        self._lock = threading.Lock()

    @contextmanager
    def sharing(self, who: object) -> Iterator[None]:
        """Within the block `who` works beside the processing."""
        self._note(self._beside.add, who)
        try:
            yield
        finally:
            self._note(self._beside.discard, who)

    def _note(self, change: Callable[[object], None], who: object) -> None:
        with self._lock:
            change(who)
            sys.setswitchinterval(SHARED_SWITCH_S if self._beside else self._default_switch_s)

    def rest_s(self, worked_s: float) -> float:
        """How long to rest after working for so long: not at all where nothing is processed."""
        return min(worked_s, REST_MAX_S) if self.is_processing() else 0.0

    def rest(self, worked_s: float) -> None:
        """Rest on this thread."""
        time.sleep(self.rest_s(worked_s))
