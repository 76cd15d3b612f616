"""One broker process that cannot outlive this process: run under `guardian.py`."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from kstreams_worker.devbroker.server import NodeDirectory
from kstreams_worker.errors import BrokerError

_GUARDIAN = Path(__file__).with_name("guardian.py")


class GuardedNode:
    """A running broker node, owned by this process. Not thread-safe."""

    def __init__(
        self, name: str, directory: NodeDirectory, command: list[str], remove_if_orphaned: Path | None
    ) -> None:
        """Start `command`. `remove_if_orphaned` is deleted if this process dies without closing the node."""
        self._name = name
        self._directory = directory
        removal = ["--remove", str(remove_if_orphaned)] if remove_if_orphaned else []
        with directory.log_file.open("ab") as log:
            self._guardian = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_GUARDIAN), *removal, "--", *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # Ctrl-C in the terminal is for the owner, who then closes the node in its own time.
                start_new_session=True,
            )
        assert self._guardian.stdout is not None
        with self._guardian.stdout as output:
            first_line = output.readline()
        if not first_line:
            self.wait(timeout_s=None)
            raise BrokerError(f"{name} could not be started:\n{directory.log_tail()}")
        self.pid = int(first_line)

    @property
    def is_running(self) -> bool:
        return self._guardian.poll() is None

    def check_running(self) -> None:
        """Raises BrokerError with the end of the log if the node has ended."""
        if not self.is_running:
            raise BrokerError(
                f"{self._name} ended with code {self._guardian.returncode}:\n{self._directory.log_tail()}"
            )

    def send(self, signal_number: signal.Signals) -> None:
        """Pass a signal on to the node; nothing happens if it has ended."""
        assert self._guardian.stdin is not None
        try:
            self._guardian.stdin.write(f"{signal_number.name}\n".encode())
            self._guardian.stdin.flush()
        except (BrokenPipeError, ValueError):
            return

    def stop(self, timeout_s: float) -> None:
        """Shut the node down in an orderly way; kill it if that takes longer than `timeout_s`."""
        self.send(signal.SIGTERM)
        self.send(signal.SIGCONT)  # a paused node would not see the first
        try:
            self.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the node at once, as a crash would."""
        self.send(signal.SIGKILL)
        self.wait(timeout_s=None)

    def wait(self, timeout_s: float | None) -> None:
        """Return when the node has ended. Raises subprocess.TimeoutExpired."""
        self._guardian.wait(timeout_s)
        assert self._guardian.stdin is not None
        try:
            self._guardian.stdin.close()
        except BrokenPipeError:
            return
