"""Halves the time a broker takes to start: the JVM's archive of loaded classes (class data sharing, JEP 350).

The archive fits one Java runtime and one set of jars, both in its name. A JVM ignores one that does not fit after all, so
it can only ever cost time, never a start.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from kstreams_worker.devbroker.jars import install_jars, jars_directory
from kstreams_worker.devbroker.java import require_java


def class_archive() -> Path:
    """Where the archive is, or would be."""
    java = require_java()
    runtime = hashlib.sha256(f"{java.path}\n{java.description}".encode()).hexdigest()[:12]
    jars = jars_directory("broker")
    return jars.with_name(f"{jars.name}-{runtime}.jsa")


def install_class_archive() -> Path:
    """Write the archive, if it is not there, by starting a broker once and stopping it; takes about ten seconds.

    Raises KStreamsError if that broker does not start. A JVM that writes no archive is not an error.
    """
    from kstreams_worker.devbroker.embedded import EmbeddedBroker  # noqa: PLC0415 - it asks us for the archive

    install_jars("broker")
    archive = class_archive()
    if archive.is_file():
        return archive
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".archive-") as directory:
        unfinished = Path(directory, "classes.jsa")
        options = (f"-XX:ArchiveClassesAtExit={unfinished}", "-Xlog:disable")
        with EmbeddedBroker(java_options=options) as broker:
            broker.stop_node(1)
        if unfinished.is_file():
            unfinished.replace(archive)
    return archive
