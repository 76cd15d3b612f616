"""The command as process 1, as in a container: the kernel drops each signal that process 1 has no handler for."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

import psutil
import pytest
from harness.instances import clean_environment, command_line
from harness.waiting import DEADLINE_S, until

UNSHARE = ["unshare", "--pid", "--fork", "--kill-child"]

SLOW_MODULE = """
import pathlib, time
pathlib.Path("loading").touch()
time.sleep(600)
"""


def may_unshare() -> bool:
    return shutil.which("unshare") is not None and (
        subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(not may_unshare(), reason="needs the right to make a process namespace")
def test_sigterm_ends_it_before_its_workers_run(tmp_path: Path) -> None:
    """Here while the topology's module is loading, which takes as long as it likes."""
    (tmp_path / "slow.py").write_text(SLOW_MODULE)
    command = command_line("run", "slow:topology", "--application-id", "orders", "--bootstrap-servers", "127.0.0.1:1")
    with subprocess.Popen([*UNSHARE, *command], cwd=tmp_path, env=clean_environment()) as process:
        try:
            until((tmp_path / "loading").exists, "the module is loading")
            (first,) = psutil.Process(process.pid).children()
            first.send_signal(signal.SIGTERM)
            assert process.wait(DEADLINE_S) == 128 + signal.SIGTERM
        finally:
            process.kill()
