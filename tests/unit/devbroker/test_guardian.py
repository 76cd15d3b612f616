"""The guardian of a broker node, tried on a smaller command."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kstreams_worker.devbroker import guardian

DEADLINE_S = 20.0
# Ends on SIGTERM with a code of its own, and says when it is ready to.
PATIENT = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("ready", file=open(sys.argv[1], "w"), flush=True)
while True: time.sleep(60)
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.mkdir()
    return path


@pytest.fixture
def guarded(directory: Path) -> Iterator[tuple[subprocess.Popen[bytes], psutil.Process]]:
    """The guardian and its command, which has installed its signal handler."""
    ready = directory.parent / "ready"
    patient = [sys.executable, "-c", PATIENT, str(ready)]
    process = subprocess.Popen(
        [sys.executable, guardian.__file__, "--remove", str(directory), "--", *patient],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        command = psutil.Process(int(process.stdout.readline()))
        while not (ready.exists() and ready.read_text()):
            assert command.is_running()
        yield process, command
        process.kill()


def test_passes_signals_on_and_returns_the_commands_code(
    guarded: tuple[subprocess.Popen[bytes], psutil.Process], directory: Path
) -> None:
    process, _ = guarded
    assert process.stdin is not None
    process.stdin.write(b"SIGST")
    process.stdin.flush()
    process.stdin.write(b"OP\nSIGCONT\nSIGTERM\n")
    process.stdin.flush()
    assert process.wait(DEADLINE_S) == 7
    assert directory.exists()


def test_kills_the_command_and_removes_its_data_when_the_owner_is_gone(
    guarded: tuple[subprocess.Popen[bytes], psutil.Process], directory: Path
) -> None:
    process, command = guarded
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(DEADLINE_S) == 128 + 9
    assert not command.is_running()
    assert not directory.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent died")
def test_takes_the_command_along_when_killed(guarded: tuple[subprocess.Popen[bytes], psutil.Process]) -> None:
    process, command = guarded
    process.kill()
    _, alive = psutil.wait_procs([command], timeout=DEADLINE_S)
    assert [each for each in alive if each.status() != psutil.STATUS_ZOMBIE] == []
