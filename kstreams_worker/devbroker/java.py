"""Finds the Java runtime and Maven that the development broker and the Spark jobs need, or says what is missing."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kstreams_worker.errors import KStreamsError

# Kafka 4 brokers and Spark 4 both refuse to run on anything older.
JAVA_MAJOR_VERSION_MIN = 17

_JAVA_ADVICE = (
    "install a JDK: 'apt-get install openjdk-17-jre-headless' (Debian), 'brew install openjdk@17' (macOS), "
    "'dnf install java-17-openjdk-headless' (Fedora), or point JAVA_HOME at one"
)
_MAVEN_ADVICE = (
    "install it: 'apt-get install maven' (Debian), 'brew install maven' (macOS), 'dnf install maven' (Fedora)"
)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime; `description` is what `java -version` prints."""

    path: Path
    description: str


@functools.cache
def require_java() -> Java:
    """The `java` to run: of JAVA_HOME, else of the PATH. Raises KStreamsError if there is none or it is too old."""
    java_home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(java_home, "bin"))) if java_home else None
    found = found or shutil.which("java")
    if found is None:
        raise KStreamsError(f"Java {JAVA_MAJOR_VERSION_MIN} or newer is needed and was not found; {_JAVA_ADVICE}")
    answer = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    version = java_major_version(answer.stderr)
    if version is None:
        raise KStreamsError(f"{found} does not run ({answer.stderr.strip() or 'no output'}); {_JAVA_ADVICE}")
    if version < JAVA_MAJOR_VERSION_MIN:
        raise KStreamsError(
            f"Java {JAVA_MAJOR_VERSION_MIN} or newer is needed, but {found} is Java {version}; {_JAVA_ADVICE}"
        )
    return Java(Path(found).resolve(), answer.stderr.strip())


def java_major_version(version_output: str) -> int | None:
    """The major version in what `java -version` prints ("1.8.0_402" is 8, "17.0.15" is 17), None if there is none."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', version_output)
    if match is None:
        return None
    major = int(match[1])
    return int(match[2]) if major == 1 and match[2] else major


def require_maven() -> Path:
    """The `mvn` of the PATH. Raises KStreamsError if there is none."""
    found = shutil.which("mvn")
    if found is None:
        raise KStreamsError(f"Maven (mvn) is needed to fetch the jars and was not found; {_MAVEN_ADVICE}")
    return Path(found)
