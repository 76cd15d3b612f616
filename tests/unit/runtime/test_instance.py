"""An instance as a whole: state directory, status pages and workers, with a small target in place of the streams worker."""

import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
import worker_targets

from kstreams_worker.config import HIDDEN, Settings
from kstreams_worker.errors import StateError, UsageError
from kstreams_worker.runtime import instance
from kstreams_worker.runtime.instance import run_instance, start_facts
from state.directory import StateDirectory

APP = """
from kstreams_worker.topology.builder import StreamsBuilder
builder = StreamsBuilder()
builder.stream("in").to("out")
topology = builder.build()
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A current directory with a topology in it, and the process's logging left alone."""
    (tmp_path / "made_instance_app.py").write_text(APP)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(instance, "configure_logging", lambda *_args, **_context: None)


def settings_of(directory: Path, **more: Any) -> Settings:
    return Settings(application_id="orders", bootstrap_servers="none:1", state_dir=directory, log_format="json", **more)


def test_status_pages_are_up_while_it_runs(tmp_path: Path) -> None:
    """The address stands in the start banner, here taken from the log."""
    exit_codes = []
    with structlog.testing.capture_logs() as events:
        thread = threading.Thread(
            target=lambda: exit_codes.append(
                run_instance(
                    settings_of(tmp_path, http_port=0), "made_instance_app:topology", worker_targets.ends_after_a_go
                )
            )
        )
        worker_targets.make_pipe(tmp_path, "go")
        worker_targets.make_pipe(tmp_path, "up")
        thread.start()
        (tmp_path / "up").open().close()
        [start] = [event for event in events if event["event"] == "Starting"]
        with httpx.Client(base_url=start["status"], trust_env=False) as client:
            assert client.get("/live").status_code == 200
            assert client.get("/ready").status_code == 503
            assert "Sub-topology: 0" in client.get("/topology").text
            assert 'kstreams_workers{group="orders",worker="supervisor"} 1.0' in client.get("/metrics").text
        (tmp_path / "go").open("w").close()
        thread.join(60)
    assert exit_codes == [0]
    StateDirectory(tmp_path, "orders").lock_instance()


def test_a_second_instance_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    holder = StateDirectory(tmp_path, "orders")
    holder.lock_instance()
    with pytest.raises(StateError, match="in use by another instance"):
        run_instance(settings_of(tmp_path), "made_instance_app:topology", worker_targets.exits_with_2)
    holder.unlock_instance()


def test_a_mistake_in_the_topology_is_told_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no 'topologi'"):
        run_instance(settings_of(tmp_path / "state"), "made_instance_app:topologi", worker_targets.exits_with_2)
    assert not (tmp_path / "state").exists()


def test_start_facts_answer_a_bug_report_and_hide_secrets(tmp_path: Path) -> None:
    security = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "me",
        "sasl.password": "hunter2",
    }
    facts = start_facts(settings_of(tmp_path, num_workers=3, client=security), "app:topology", "id-1", "http://h:1")
    assert facts["workers"] == facts["capacity"] == 3
    assert facts["protocol"] == "incremental, metadata version 4"
    assert "python 3." in facts["versions"]
    assert f"sasl.password={HIDDEN}" in facts["settings"]
    assert "hunter2" not in str(facts)
