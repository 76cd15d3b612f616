"""The Kubernetes manifests and the chart they are rendered from: valid, of one piece, and made of settings that exist."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from kstreams_worker.config import Settings

ROOT = Path(__file__).parents[3]
MANIFESTS = ROOT / "deploy/kubernetes/orders.yaml"
CHART = ROOT / "deploy/helm/kstreams-worker"
KUBERNETES_VERSIONS = ("1.30", "1.33")

needs_helm = pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed")


def helm(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["helm", "template", "orders", str(CHART), "--kube-version", "1.33.0", *options],
        capture_output=True,
        text=True,
        check=False,
    )


def objects(text: str) -> dict[str, dict[str, Any]]:
    """By kind."""
    return {document["kind"]: document for document in yaml.safe_load_all(text) if document}


@pytest.fixture(scope="module")
def manifests() -> dict[str, dict[str, Any]]:
    return objects(MANIFESTS.read_text())


def check_schema(manifests: dict[str, dict[str, Any]]) -> None:
    """Strictly: a field that does not exist is an error too. Raises kubernetes_validate.ValidationError."""
    for version in KUBERNETES_VERSIONS:
        for manifest in manifests.values():
            kubernetes_validate.validate(manifest, version, strict=True)


def settings_of(manifests: dict[str, dict[str, Any]], **more: str) -> Settings:
    """Raises SettingsError for a variable that is no setting, or has a wrong value."""
    return Settings.load(env={**manifests["ConfigMap"]["data"], **more})


def test_the_manifests_are_what_the_chart_renders(manifests: dict[str, dict[str, Any]]) -> None:
    """deploy/kubernetes/render.sh writes them anew. Without Helm only a change of the chart is noticed."""
    files = [CHART / "Chart.yaml", CHART / "values.yaml", *sorted((CHART / "templates").iterdir())]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    assert f"(sha256 {digest})" in MANIFESTS.read_text(), "the chart has changed: run deploy/kubernetes/render.sh"
    if shutil.which("helm"):
        assert objects(helm().stdout) == manifests


def test_the_manifests_are_valid_by_the_schema_of_kubernetes(manifests: dict[str, dict[str, Any]]) -> None:
    assert sorted(manifests) == ["ConfigMap", "PodDisruptionBudget", "Service", "StatefulSet"]
    check_schema(manifests)


def test_the_schema_finds_mistakes() -> None:
    for right, wrong in (("maxUnavailable:", "maxUnavailabel:"), ("replicas: 3", "replicas: three")):
        with pytest.raises(kubernetes_validate.ValidationError, match=wrong.partition(": ")[2] or wrong[:-1]):
            check_schema(objects(MANIFESTS.read_text().replace(right, wrong)))


def test_settings_exist_and_leave_time_to_hand_over(manifests: dict[str, dict[str, Any]]) -> None:
    settings = settings_of(manifests)
    assert settings.on_sigterm == "handover"
    assert settings.scale_down_timeout_ms is not None
    grace_ms = 1000 * manifests["StatefulSet"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert settings.scale_down_timeout_ms + 30_000 <= grace_ms, "after the hand-over it commits, leaves and closes"


def test_the_pieces_belong_together(manifests: dict[str, dict[str, Any]]) -> None:
    stateful = manifests["StatefulSet"]["spec"]
    pod = stateful["template"]
    selector = stateful["selector"]["matchLabels"]
    assert selector.items() <= pod["metadata"]["labels"].items()
    assert manifests["Service"]["spec"]["selector"] == selector
    assert manifests["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == selector
    assert stateful["serviceName"] == manifests["Service"]["metadata"]["name"]
    (container,) = pod["spec"]["containers"]
    assert container["envFrom"][0]["configMapRef"]["name"] == manifests["ConfigMap"]["metadata"]["name"]
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]} | {
        claim["metadata"]["name"] for claim in stateful["volumeClaimTemplates"]
    }
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes


def test_it_fits_the_image(manifests: dict[str, dict[str, Any]]) -> None:
    """Port, volume and user are the Dockerfile's, and the probes ask for pages that there are."""
    dockerfile = (ROOT / "deploy/Dockerfile").read_text()
    pod = manifests["StatefulSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert f"USER {pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" in dockerfile
    (port,) = container["ports"]
    assert f"EXPOSE {port['containerPort']}\n" in dockerfile
    assert f"VOLUME {container['volumeMounts'][0]['mountPath']}\n" in dockerfile
    pages = {kind: container[kind]["httpGet"]["path"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert pages == {"startupProbe": "/live", "livenessProbe": "/live", "readinessProbe": "/ready"}


def test_one_version_everywhere() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)
    for path in ("docker-compose.yml", "examples/Dockerfile", "deploy/Dockerfile"):
        named = set(re.findall(r"kstreams-worker:(\d[\d.]*\d)", (ROOT / path).read_text()))
        assert named == {version}, path


def test_templates_use_values_that_there_are() -> None:
    """A value that is misspelled renders as nothing, and Helm says nothing."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    used = {
        name
        for path in (CHART / "templates").iterdir()
        for name in re.findall(r"\.Values\.([A-Za-z.]+)", path.read_text())
    }
    assert {name for name in used if not has(values, name.split("."))} == set()
    assert {name.split(".")[0] for name in used} == set(values), "each value is used"


def has(values: dict[str, Any], path: list[str]) -> bool:
    head, *rest = path
    return head in values and (not rest or has(values[head], rest))


@needs_helm
def test_the_chart_with_all_options() -> None:
    options = [
        "staticMembership=true",
        "persistence.enabled=false",
        "existingSecret=credentials",
        "imagePullSecrets[0].name=registry",
        "podAnnotations.team=payments",
        "nodeSelector.disk=ssd",
        "extraVolumes[0].name=certificates",
        "extraVolumes[0].secret.secretName=kafka-ca",
        "extraVolumeMounts[0].name=certificates",
        "extraVolumeMounts[0].mountPath=/etc/kafka",
        r"settings.on\.sigterm=close",
        r"settings.stream\.imbalance\.percentage=0.25",
        r"settings.task\.buffer\.max\.bytes=134217728",
        r"settings.consumer\.fetch\.max\.bytes=52428800",
    ]
    rendered = helm(*(part for option in options for part in ("--set", option)))
    assert rendered.returncode == 0, rendered.stderr
    made = objects(rendered.stdout)
    check_schema(made)
    settings = settings_of(made, KSTREAMS_GROUP_INSTANCE_ID="orders-0")
    assert settings.task_buffer_max_bytes == 134_217_728, "large numbers are written in full"
    assert settings.stream_imbalance_percentage == 0.25
    assert settings.client_config("consumer")["fetch.max.bytes"] in (52_428_800, "52428800")
    (container,) = made["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    assert container["envFrom"][1] == {"secretRef": {"name": "credentials", "optional": False}}
    assert container["env"][0]["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}


@needs_helm
def test_a_grace_period_too_short_for_the_hand_over_is_refused() -> None:
    rendered = helm("--set", "terminationGracePeriodSeconds=240")
    assert rendered.returncode != 0
    assert "scale.down.timeout.ms must be below terminationGracePeriodSeconds" in rendered.stderr
