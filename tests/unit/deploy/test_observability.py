"""The dashboard and the alert rules: every query can be parsed, and every metric and label in it is one that we expose."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from kstreams_worker.observe.metrics import SupervisorMetrics, WorkerMetrics, metric_names
from kstreams_worker.tasks.states import Role, TaskState

ROOT = Path(__file__).parents[3]
OBSERVABILITY = ROOT / "deploy/observability"
DASHBOARD = OBSERVABILITY / "grafana/kstreams-worker.json"
ALERTS = OBSERVABILITY / "alerts.yml"

# What Prometheus adds to each sample, and what we add when the processes' texts are joined.
COMMON_LABELS = {"job", "instance", "group", "worker"}
GENERATED_METRICS = {"up"}

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")


def dashboard() -> dict[str, Any]:
    return json.loads(DASHBOARD.read_text())


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def queries() -> Iterator[tuple[str, str]]:
    """Where it stands, and the query with the dashboard's variables filled in."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"].replace("$__rate_interval", "1m").replace("$group", "orders")
    for rule in rules():
        yield rule["alert"], rule["expr"]


def nodes(expression: Any) -> Iterator[Any]:
    yield expression
    for attribute in ("expr", "lhs", "rhs", "vector_selector", "vs", "param"):
        child = getattr(expression, attribute, None)
        if isinstance(child, promql_parser.Expr):
            yield from nodes(child)
    for argument in getattr(expression, "args", None) or ():
        yield from nodes(argument)


def labels_of_metrics() -> dict[str, set[str]]:
    """The labels of each series, by its name."""
    found: dict[str, set[str]] = {}
    for registry in (WorkerMetrics().registry, SupervisorMetrics().registry):
        for collector, names in registry._collector_to_names.items():
            for name in names:
                found[name] = set(getattr(collector, "_labelnames", ())) | COMMON_LABELS
    for name in metric_names():
        if name.endswith("_bucket"):
            found[name] = found.get(name, set()) | COMMON_LABELS | {"le"}
    return found


@pytest.mark.parametrize(("place", "query"), list(queries()))
def test_queries_name_what_there_is(place: str, query: str) -> None:
    known = labels_of_metrics()
    tree = list(nodes(promql_parser.parse(query)))
    selectors = [node for node in tree if isinstance(node, promql_parser.VectorSelector)]
    selected = {selector.name for selector in selectors}
    assert selected
    assert selected <= metric_names() | GENERATED_METRICS, place
    for selector in selectors:
        for matcher in selector.matchers.matchers:
            allowed = known.get(selector.name, COMMON_LABELS)
            assert matcher.name in allowed, f"{place}: {selector.name} has no label {matcher.name}"
            values = {"role": Role, "state": TaskState}.get(matcher.name)
            if values is not None:
                assert matcher.value in {value.value for value in values}, place
    grouped = {
        label
        for node in tree
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None
        for label in node.modifier.labels
    }
    allowed = set.intersection(*(known.get(name, COMMON_LABELS) for name in selected))
    assert grouped <= allowed, f"{place}: no labels {grouped - allowed}"


def test_a_misspelled_metric_would_be_found() -> None:
    with pytest.raises(AssertionError, match="somewhere"):
        test_queries_name_what_there_is("somewhere", "sum(kstreams_tasks_totals)")
    with pytest.raises(AssertionError, match="no label rolle"):
        test_queries_name_what_there_is("somewhere", 'sum(kstreams_tasks{rolle="active"})')
    with pytest.raises(AssertionError, match="no labels"):
        test_queries_name_what_there_is("somewhere", "sum by (topik) (kstreams_input_lag_records)")


def test_every_metric_of_ours_is_on_the_dashboard() -> None:
    """What nobody can see nobody needs. Some are seen through others of the same matter."""
    seen_otherwise = {"kstreams_worker_state"}
    families = {name.removesuffix("_bucket") for name in metric_names() if name.startswith("kstreams_")}
    families = {name.removesuffix("_count").removesuffix("_sum") for name in families} - seen_otherwise
    text = DASHBOARD.read_text()
    assert {name for name in families if name not in text} == set()


def test_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_alerts_say_what_is_wrong_and_how_urgent_it_is() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"].keys() == {"summary", "description"}


def test_prometheus_and_grafana_are_given_these_files() -> None:
    prometheus = yaml.safe_load((OBSERVABILITY / "prometheus.yml").read_text())
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    (job,) = prometheus["scrape_configs"]
    assert prometheus["rule_files"] == ["alerts.yml"]
    (lookup,) = job["dns_sd_configs"]
    assert set(lookup["names"]) <= compose.keys()
    assert str(lookup["port"]) in compose["worker"]["expose"]
    assert any(job["job_name"] in rule["expr"] for rule in rules()), "the rules name the job"
    (source,) = yaml.safe_load((OBSERVABILITY / "grafana/datasource.yml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"


@needs_promtool
@pytest.mark.parametrize(
    "check",
    [
        ["check", "rules", "--lint=all", "alerts.yml"],
        ["check", "config", "--syntax-only", "prometheus.yml"],
        ["test", "rules", str(Path(__file__).parent / "alerts_test.yml")],
    ],
    ids=lambda check: " ".join(check[:2]),
)
def test_promtool_agrees(check: list[str]) -> None:
    """Rules and configuration are valid, and alerts fire when they should and not otherwise."""
    checked = subprocess.run(["promtool", *check], cwd=OBSERVABILITY, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
