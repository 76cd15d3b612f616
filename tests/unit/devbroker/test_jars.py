"""Fetching jars: once, whole, and with a message that says what is missing."""

from __future__ import annotations

import re
import stat
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import platformdirs
import pytest

from kstreams_worker.devbroker import jars
from kstreams_worker.devbroker.jars import install_jars, jars_directory
from kstreams_worker.devbroker.java import java_major_version, require_java, require_maven
from kstreams_worker.errors import KStreamsError
from kstreams_worker.testing.broker import DOCKER_IMAGE

ROOT = Path(__file__).parents[3]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of jars."""
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda _name: str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The only directory on the PATH, empty."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    require_java.cache_clear()
    yield directory
    require_java.cache_clear()


def add_command(directory: Path, name: str, script: str) -> None:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_two_at_once_fetch_the_same_whole_set_once(cache: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(install_jars, ["spark", "spark"])
    assert first == second == jars_directory("spark")
    assert sorted(re.sub(r"-\d.*", "", jar.name) for jar in first.iterdir()) == [
        "commons-pool2",
        "kafka-clients",
        "spark-sql-kafka",
        "spark-token-provider-kafka",
    ]
    # The lock and the jars: nothing unfinished is left.
    assert sorted(path.name for path in (cache / "jars").iterdir()) == [".spark.lock", first.name]


def test_jars_that_are_there_need_neither_java_nor_maven(cache: Path, commands: Path) -> None:
    jars_directory("broker").mkdir(parents=True)
    assert install_jars("broker") == jars_directory("broker")


def test_other_pom_means_other_directory(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = jars_directory("broker")
    changed = tmp_path / "pom.xml"
    changed.write_text("<project/>")
    monkeypatch.setattr(jars, "_pom", lambda _name: changed)
    assert jars_directory("broker") != before


def test_failing_maven_is_quoted_and_leaves_nothing_behind(cache: Path, commands: Path) -> None:
    add_command(commands, "java", """echo 'openjdk version "17.0.1"' >&2""")
    add_command(commands, "mvn", "echo first line; echo '[ERROR] no such host'; exit 1")
    with pytest.raises(KStreamsError, match=r"\[ERROR\] no such host"):
        install_jars("broker")
    assert [path.name for path in (cache / "jars").iterdir()] == [".broker.lock"]


def test_missing_and_old_tools_are_named_with_what_to_do(commands: Path) -> None:
    with pytest.raises(KStreamsError, match=r"Java 17 or newer.*apt-get install openjdk"):
        require_java()
    with pytest.raises(KStreamsError, match=r"Maven.*apt-get install maven"):
        require_maven()
    add_command(commands, "java", """echo 'openjdk version "11.0.2" 2019-01-15' >&2""")
    with pytest.raises(KStreamsError, match="is Java 11"):
        require_java()


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ("command not found", None),
    ],
)
def test_java_version(output: str, version: int | None) -> None:
    assert java_major_version(output) == version


def test_containers_run_the_version_of_the_jars() -> None:
    pom = (ROOT / "deploy/jars/broker/pom.xml").read_text()
    match = re.search(r"<artifactId>kafka_2.13</artifactId>\s*<version>([\d.]+)</version>", pom)
    assert match is not None
    assert f"apache/kafka:{match[1]}" == DOCKER_IMAGE
    assert DOCKER_IMAGE in (ROOT / "docker-compose.yml").read_text()


def test_make_names_every_missing_prerequisite(commands: Path) -> None:
    for name in ("sed", "head"):
        (commands / name).symlink_to(f"/usr/bin/{name}" if Path(f"/usr/bin/{name}").exists() else f"/bin/{name}")
    check = subprocess.run(
        ["/bin/sh", str(ROOT / "deploy/prerequisites.sh"), "python3"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": str(commands)},
    )
    assert check.returncode == 1
    assert re.findall(r"^missing: (\w+)", check.stderr, re.MULTILINE) == ["Python", "Java", "Maven"]
