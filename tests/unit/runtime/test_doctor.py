"""How the doctor judges what it finds."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from kstreams_worker.errors import BrokerError
from kstreams_worker.group.rights import BrokerClock
from kstreams_worker.runtime.doctor import MIB, judge_broker_version, judge_clock, judge_disk, judge_writable
from kstreams_worker.runtime.findings import Finding, Level, guarded, judge_rights


@pytest.mark.parametrize(
    ("ahead_ms", "uncertainty_ms", "level"),
    [(3.0, 1.0, Level.OK), (-1_400.0, 500.0, Level.OK), (-1_600.0, 500.0, Level.WARN), (90_000.0, 2.0, Level.WARN)],
)
def test_clocks_may_differ_by_what_cannot_be_measured(ahead_ms: float, uncertainty_ms: float, level: Level) -> None:
    finding = judge_clock(BrokerClock(ahead_ms, uncertainty_ms))
    assert finding.level is level
    assert ("ahead of" if ahead_ms > 0 else "behind") in finding.text
    assert bool(finding.next_step) is (level is Level.WARN)


def test_rights_that_lack_are_named_with_what_to_grant() -> None:
    finding = judge_rights("topic orders", frozenset({"DESCRIBE", "WRITE"}), ("READ", "DESCRIBE"))
    assert (finding.level, finding.text) == (Level.FAIL, "topic orders: no READ")
    assert finding.next_step == "grant READ on it to this user"
    assert judge_rights("topic orders", frozenset({"READ", "DESCRIBE"}), ("READ", "DESCRIBE")).level is Level.OK
    unseen = judge_rights("topic orders", frozenset(), ("READ", "DESCRIBE"))
    assert (unseen.level, unseen.text) == (Level.FAIL, "topic orders: this user may not see it")
    assert unseen.next_step == "grant READ, DESCRIBE on it to this user"
    assert judge_rights("topic orders", None, ("READ",)).level is Level.WARN


def test_old_brokers_are_refused() -> None:
    assert judge_broker_version((2, 4)).level is Level.FAIL
    assert judge_broker_version((2, 5)).level is Level.OK
    assert judge_broker_version((4, 0)).text == "release line 4.0 or later"


@pytest.mark.parametrize(
    ("free_mib", "total_mib", "level"),
    [(50_000, 100_000, Level.OK), (2_000, 100_000, Level.WARN), (500, 1_000, Level.WARN), (50, 1_000, Level.FAIL)],
)
def test_little_room_is_told(
    free_mib: int, total_mib: int, level: Level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = SimpleNamespace(free=free_mib * MIB, total=total_mib * MIB)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage if place == tmp_path else None)
    assert judge_disk(tmp_path / "not" / "yet").level is level


def test_a_directory_that_can_be_made_is_fine_and_one_below_a_file_is_not(tmp_path: Path) -> None:
    assert "the first instance will make it" in judge_writable(tmp_path / "not" / "yet").text
    assert not (tmp_path / "not").exists()
    (tmp_path / "file").touch()
    finding = judge_writable(tmp_path / "file" / "below")
    assert (finding.level, finding.text) == (Level.FAIL, f"{tmp_path}/file/below cannot be written: Not a directory")
    assert list(tmp_path.iterdir()) == [tmp_path / "file"], "nothing is left behind"


def test_a_check_that_cannot_be_made_is_a_failure_and_the_others_go_on() -> None:
    def look():
        yield Finding("group", Level.OK, "first")
        raise BrokerError("no right to look")

    assert [(each.level, each.text) for each in guarded("group", look)] == [
        (Level.OK, "first"),
        (Level.FAIL, "no right to look"),
    ]
