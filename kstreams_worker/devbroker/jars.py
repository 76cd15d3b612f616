"""Fetches, once, the jars that run the development broker and Spark's Kafka connector.

What is fetched stands in a pom (`deploy/jars/<name>/pom.xml`, shipped in the wheel as `devbroker/poms`); Maven
resolves it into the user's cache. The directory's name holds a hash of the pom, so a changed pom is fetched anew and a
finished directory is never touched again. It appears by a rename: another process sees all of it or nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import platformdirs

from kstreams_worker.devbroker.java import require_java, require_maven
from kstreams_worker.errors import KStreamsError

JarSet = Literal["broker", "spark"]

# A slow line fetches the broker's 44 MB well within it; a mirror that hangs is given up.
_MAVEN_TIMEOUT_S = 900
_MAVEN_LINES_SHOWN = 15


def install_jars(name: JarSet) -> Path:
    """The directory that holds the jars of `name`, fetched first if they are not there yet.

    Raises KStreamsError if Java or Maven is missing, or if Maven fails (with the end of its output).
    """
    pom = _pom(name)
    target = jars_directory(name)
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.parent / f".{name}.lock"):
        if not target.is_dir():
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{name}-") as unfinished:
                jars = Path(unfinished, "jars")
                _resolve(pom, jars)
                jars.rename(target)
    return target


def jars_directory(name: JarSet) -> Path:
    """Where `install_jars(name)` puts the jars, whether they are there yet or not."""
    digest = hashlib.sha256(_pom(name).read_bytes()).hexdigest()[:12]
    return Path(platformdirs.user_cache_dir("kstreams-worker"), "jars", f"{name}-{digest}")


def _pom(name: JarSet) -> Path:
    package = Path(__file__).parent
    for directory in (package / "poms", package.parents[1] / "deploy" / "jars"):
        pom = directory / name / "pom.xml"
        if pom.is_file():
            return pom
    raise KStreamsError(f"this installation lacks the pom of the {name} jars; reinstall kstreams-worker")


def _resolve(pom: Path, output_directory: Path) -> None:
    require_java()
    command = [
        str(require_maven()),
        "--batch-mode",
        "--no-transfer-progress",
        f"--file={pom}",
        "dependency:copy-dependencies",
        "-DincludeScope=runtime",
        f"-DoutputDirectory={output_directory}",
    ]
    try:
        run = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=_MAVEN_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise KStreamsError(f"Maven did not finish within {_MAVEN_TIMEOUT_S} s: {' '.join(command)}") from None
    if run.returncode != 0 or not any(output_directory.glob("*.jar")):
        shutil.rmtree(output_directory, ignore_errors=True)
        tail = "\n".join(run.stdout.strip().splitlines()[-_MAVEN_LINES_SHOWN:])
        raise KStreamsError(f"Maven could not fetch the jars of {pom} (is its repository reachable?):\n{tail}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
