"""The versions of this program and of what it is built on, as asked for in every bug report."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGE = "kstreams-worker"
BUILT_ON = ("confluent-kafka", "kafka-python", "rocksdict", "orjson", "pydantic")


def package_version(package: str = PACKAGE) -> str:
    """The installed version of a package; `not installed` for a source tree that is run in place."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def versions() -> dict[str, str]:
    """Our version, the interpreter's, the platform's and those of the libraries that touch Kafka and disk."""
    return {
        PACKAGE: package_version(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        **{package: package_version(package) for package in BUILT_ON},
    }
