"""How one broker node is laid out on disk, formatted, and which command runs it."""

from __future__ import annotations

import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kstreams_worker.devbroker.class_archive import class_archive
from kstreams_worker.devbroker.jars import install_jars
from kstreams_worker.devbroker.java import require_java
from kstreams_worker.devbroker.properties import NodeAddress, server_properties
from kstreams_worker.errors import BrokerError

HEAP_MB = 512
# Only the first, cheap compiler. A broker that lives for seconds or minutes spends more on the second one than it gains.
QUICK_START = ("-XX:TieredStopAtLevel=1",)
_LOG_CONFIGURATION = Path(__file__).with_name("log4j2.xml")
_FORMAT_TIMEOUT_S = 60
_LOG_LINES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class NodeDirectory:
    """Where one node keeps its data, its properties and its log."""

    path: Path

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def properties_file(self) -> Path:
        return self.path / "server.properties"

    @property
    def log_file(self) -> Path:
        return self.path / "server.log"

    @property
    def is_formatted(self) -> bool:
        return (self.data / "meta.properties").is_file()

    def log_tail(self) -> str:
        """The end of the node's log, for an error message."""
        try:
            return _tail(self.log_file.read_text(errors="replace"))
        except FileNotFoundError:
            return "(it wrote no log)"


def new_cluster_id() -> str:
    """A cluster id in Kafka's form: a UUID in URL-safe base64 without padding, which must not begin with a dash."""
    while True:
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not cluster_id.startswith("-"):
            return cluster_id


def write_properties(
    directory: NodeDirectory, node: NodeAddress, cluster: Sequence[NodeAddress], overrides: Mapping[str, str | int]
) -> None:
    """Write the node's `server.properties`, replacing an older one."""
    directory.path.mkdir(parents=True, exist_ok=True)
    directory.properties_file.write_text(server_properties(node, cluster, directory.data, overrides))


def format_storage(directories: Sequence[NodeDirectory], cluster_id: str) -> None:
    """Format those directories that are not yet, all at the same time. Raises BrokerError with what the tool said."""
    runs = [
        subprocess.Popen(
            [
                *_java_command(heap_mb=128, options=QUICK_START),
                "kafka.tools.StorageTool",
                "format",
                "--cluster-id",
                cluster_id,
                "--config",
                str(directory.properties_file),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for directory in directories
        if not directory.is_formatted
    ]
    try:
        outputs = [run.communicate(timeout=_FORMAT_TIMEOUT_S)[0] for run in runs]
    except subprocess.TimeoutExpired:
        raise BrokerError(f"formatting the broker's data directory took more than {_FORMAT_TIMEOUT_S} s") from None
    finally:
        for run in runs:
            run.kill()
            run.wait()
    for run, output in zip(runs, outputs, strict=True):
        if run.returncode != 0:
            raise BrokerError(f"the broker's data directory could not be formatted:\n{_tail(output)}")


def server_command(directory: NodeDirectory, heap_mb: int, java_options: Sequence[str]) -> list[str]:
    """The command that runs the node in the foreground, logging to standard output."""
    return [*_java_command(heap_mb, java_options), "kafka.Kafka", str(directory.properties_file)]


def _tail(log: str) -> str:
    # Stack frames are of no use to the reader, and would push out the lines that are.
    lines = [line for line in log.splitlines() if not line.startswith("\tat ")]
    return "\n".join(lines[-_LOG_LINES_SHOWN:]) or "(it wrote no log)"


def _java_command(heap_mb: int, options: Sequence[str]) -> list[str]:
    archive = class_archive()
    return [
        str(require_java().path),
        # The serial collector starts fastest, and on a heap this small its pauses are short.
        "-XX:+UseSerialGC",
        *([f"-XX:SharedArchiveFile={archive}"] if archive.is_file() else []),
        f"-Xmx{heap_mb}m",
        f"-Dlog4j2.configurationFile={_LOG_CONFIGURATION}",
        "-Djava.awt.headless=true",
        *options,
        "-cp",
        f"{install_jars('broker')}/*",
    ]
