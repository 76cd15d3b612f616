"""Metrics: names by Prometheus' rules, series that come and go, and several processes' texts joined."""

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from kstreams_worker.observe import metrics
from kstreams_worker.observe.metrics import SUPERVISOR, SupervisorMetrics, WorkerMetrics, merge_texts, metric_names


def samples_of(text: str, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    return {
        tuple(sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


def test_every_metric_is_brought_up_to_date_by_somebody() -> None:
    """A series that is declared and never set looks like good news on a dashboard."""
    package = Path(metrics.__file__).parents[1]
    code = "\n".join(path.read_text() for path in package.rglob("*.py") if path != Path(metrics.__file__))
    handles = {
        name for made in (WorkerMetrics(), SupervisorMetrics()) for name in dir(made) if not name.startswith("_")
    }
    assert {name for name in handles - {"registry", "render"} if f".{name}" not in code} == set()


def test_the_series_that_operators_ask_for_exist() -> None:
    assert metric_names() >= {
        "kstreams_worker_state",
        "kstreams_tasks",
        "kstreams_input_lag_records",
        "kstreams_restore_remaining_records",
        "kstreams_restore_records_total",
        "kstreams_standby_lag_records",
        "kstreams_learner_lag_records",
        "kstreams_rebalances_total",
        "kstreams_rebalance_duration_seconds_sum",
        "kstreams_task_unavailable_seconds_bucket",
        "kstreams_task_moves_total",
        "kstreams_records_processed_total",
        "kstreams_record_errors_total",
        "kstreams_process_seconds_count",
        "kstreams_commit_seconds_sum",
        "kstreams_e2e_latency_seconds_bucket",
        "kstreams_state_bytes",
        "kstreams_rocksdb_memory_bytes",
        "kstreams_loop_stall_seconds_sum",
        "kstreams_build_info",
    }


def test_names_have_one_prefix_and_base_units() -> None:
    for name in metric_names():
        assert re.fullmatch(r"(kstreams|process)_[a-z0-9_]+", name)
        assert not re.search(r"_(ms|millis|minutes|kb|mb)(_|$)", name)


def test_a_worker_is_in_one_state() -> None:
    metrics = WorkerMetrics()
    metrics.set_state("joining")
    metrics.set_state("running")
    states = samples_of(metrics.render(), "kstreams_worker_state")
    assert states == {(("state", "joining"),): 0, (("state", "running"),): 1}


def test_series_that_are_not_named_any_more_are_gone() -> None:
    """A partition that moved to another worker must not leave its last lag behind for ever."""
    metrics = WorkerMetrics()
    metrics.set_input_lag({("orders", 0): 5, ("orders", 1): 7})
    metrics.set_input_lag({("orders", 1): 6})
    lag = samples_of(metrics.render(), "kstreams_input_lag_records")
    assert lag == {(("partition", "1"), ("topic", "orders")): 6}


def test_all_setters_reach_their_series() -> None:
    metrics = WorkerMetrics()
    metrics.set_tasks({("active", "running"): 2})
    metrics.set_restore_remaining({("0_1", "counts"): 10})
    metrics.set_standby_lag({"0_2": 3})
    metrics.set_learner_lag({"0_3": 4})
    metrics.set_state_bytes({"counts": 100})
    metrics.set_rocksdb_memory({"block_cache": 200})
    metrics.records_processed_total.labels("orders").inc(1000)
    text = metrics.render()
    assert samples_of(text, "kstreams_tasks") == {(("role", "active"), ("state", "running")): 2}
    assert samples_of(text, "kstreams_restore_remaining_records") == {(("store", "counts"), ("task", "0_1")): 10}
    assert samples_of(text, "kstreams_standby_lag_records") == {(("task", "0_2"),): 3}
    assert samples_of(text, "kstreams_learner_lag_records") == {(("task", "0_3"),): 4}
    assert samples_of(text, "kstreams_state_bytes") == {(("store", "counts"),): 100}
    assert samples_of(text, "kstreams_rocksdb_memory_bytes") == {(("part", "block_cache"),): 200}
    assert samples_of(text, "kstreams_records_processed_total") == {(("topic", "orders"),): 1000}
    assert "_created" not in text


def test_joined_texts_keep_every_sample_and_label_its_worker() -> None:
    first, second = WorkerMetrics(), WorkerMetrics()
    first.set_input_lag({('strange "{topic} \\', 0): 5})
    first.process_seconds.observe(0.01)
    second.records_processed_total.labels("orders").inc(3)
    texts = {"0": first.render(), "1": second.render(), SUPERVISOR: SupervisorMetrics().render()}
    merged = merge_texts(texts, group='or"ders')

    families = list(text_string_to_metric_families(merged))
    assert len({family.name for family in families}) == len(families), "each family stands once"
    found = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }
    expected = {
        (sample.name, frozenset({**sample.labels, "worker": worker, "group": 'or"ders'}.items())): sample.value
        for worker, text in texts.items()
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found == expected
