"""Runs one command and lets it live no longer than the process that asked for it.

Run as a script by `node.py`: `python guardian.py [--remove DIRECTORY] -- COMMAND...`. The owner holds the write end of
our standard input. Each line it writes is a signal's name, passed on to the command. When that pipe ends, or our parent
changes (an owner's forked child may hold the pipe open), the owner is gone, even by `kill -9`: the command is killed
and DIRECTORY removed. When the guardian itself is killed, Linux kills the command (PR_SET_PDEATHSIG); other systems
would leave it running.

Prints one line, the command's process id, and exits with the command's code, 128 + n when signal n ended it. The
command's output goes to our standard error. Standard library only, and no import of the package: a guardian is started
for each broker node and must be up in milliseconds.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys

_PR_SET_PDEATHSIG = 1
# How long an orphaned command may live when the pipe cannot tell.
_PARENT_CHECK_INTERVAL_S = 0.5


def main(arguments: list[str]) -> int:
    split = arguments.index("--")
    directory_to_remove = arguments[1] if arguments[:1] == ["--remove"] else None
    owner = os.getppid()
    child_ended = _wake_on_child_exit()
    command = subprocess.Popen(
        arguments[split + 1 :],
        stdin=subprocess.DEVNULL,
        stdout=2,
        stderr=2,
        preexec_fn=_die_with_guardian,  # noqa: PLW1509 - safe: this process has one thread
    )
    os.write(1, b"%d\n" % command.pid)
    if not _guard(command, owner, child_ended):
        command.kill()
        command.wait()
        if directory_to_remove is not None:
            shutil.rmtree(directory_to_remove, ignore_errors=True)
    return command.returncode if command.returncode >= 0 else 128 - command.returncode


def _guard(command: subprocess.Popen[bytes], owner: int, child_ended: int) -> bool:
    """Waits until the command ends (True) or its owner is gone (False)."""
    unfinished_line = b""
    while command.poll() is None:
        readable, _, _ = select.select([0, child_ended], [], [], _PARENT_CHECK_INTERVAL_S)
        if os.getppid() != owner:
            return False
        if child_ended in readable:
            os.read(child_ended, 512)
        if 0 in readable:
            read = os.read(0, 512)
            if not read:
                return False
            *lines, unfinished_line = (unfinished_line + read).split(b"\n")
            for line in lines:
                command.send_signal(signal.Signals[line.decode()])
    return True


def _wake_on_child_exit() -> int:
    """A file descriptor that becomes readable when a child ends."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)
    return read_end


def _die_with_guardian() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
