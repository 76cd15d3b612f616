"""docker-compose.yml: valid by Compose's own schema, and true about settings, topics and files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from examples.orders import topology
from kstreams_worker.config import Settings

ROOT = Path(__file__).parents[3]
COMPOSE = ROOT / "docker-compose.yml"


def services() -> dict[str, Any]:
    return yaml.safe_load(COMPOSE.read_text())["services"]


def test_it_is_valid_by_the_schema_of_compose() -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", COMPOSE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout


def test_workers_can_be_scaled() -> None:
    """No name, port or named volume of one container stands in the way of a second."""
    worker = services()["worker"]
    assert worker.keys().isdisjoint({"container_name", "ports", "hostname"})
    (state,) = [volume for volume in worker["volumes"] if isinstance(volume, dict)]
    assert state == {"type": "volume", "target": "/var/lib/kstreams-worker"}


def test_workers_wait_for_a_kafka_that_answers_and_for_their_topics() -> None:
    made = services()
    assert {name: need["condition"] for name, need in made["worker"]["depends_on"].items()} == {
        "kafka": "service_healthy",
        "topics": "service_completed_successfully",
    }
    assert "healthcheck" in made["kafka"]
    (script,) = made["topics"]["command"]
    created = set(script.partition("for topic in ")[2].partition(";")[0].split())
    described = topology.describe()
    assert {topic for topic in created if topic not in described} == set()
    assert created >= {"orders", "large-orders", "customer-totals", "product-revenue"}


def test_environments_are_made_of_settings() -> None:
    for name in ("worker", "produce", "verify"):
        environment = {key: str(value) for key, value in services()[name]["environment"].items()}
        settings = Settings.load(env={"KSTREAMS_APPLICATION_ID": "orders", **environment})
        assert (
            f"INTERNAL://{settings.bootstrap_servers}"
            in services()["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
        )


def test_what_is_mounted_is_there() -> None:
    sources = [
        volume.partition(":")[0]
        for service in services().values()
        for volume in service.get("volumes", ())
        if isinstance(volume, str) and volume.startswith("./")
    ]
    assert sources
    assert [source for source in sources if not (ROOT / source).exists()] == []


def test_commands_are_those_of_the_command_line() -> None:
    """Each command with `--help` after it: an unknown command or option is refused before that is shown."""
    for name in ("worker", "produce", "verify"):
        checked = subprocess.run(
            [sys.executable, "-m", "kstreams_worker", *services()[name]["command"], "--help"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert checked.returncode == 0, checked.stderr


def test_profiles() -> None:
    profiles = {name: service.get("profiles", []) for name, service in services().items()}
    assert [name for name, of in profiles.items() if not of] == ["kafka", "topics", "worker"]
    assert [name for name, of in profiles.items() if "spark" in of] == ["produce"]
    assert [name for name, of in profiles.items() if "observability" in of] == ["prometheus", "grafana"]
