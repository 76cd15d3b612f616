"""What is asked of the jobs: refused where it cannot work, and names that are not known."""

import pytest

from kstreams_worker.errors import UsageError
from kstreams_worker.pipeline.checks import check_named, register
from kstreams_worker.pipeline.checks.model import Check
from kstreams_worker.pipeline.failures import first_line
from kstreams_worker.pipeline.generator import OrderShape
from kstreams_worker.pipeline.produce import ProducePlan, slots_needed
from kstreams_worker.pipeline.session import is_local


@pytest.mark.parametrize(
    "wrong", [{"rate": 0}, {"rate": -1.5}, {"records": -1}, {"duration_s": 0}, {"first_index": -1}], ids=str
)
def test_plan_that_cannot_be_kept_is_refused(wrong: dict[str, float]) -> None:
    """With the value in the message."""
    with pytest.raises(UsageError, match=f"{next(iter(wrong.values())):g}"):
        ProducePlan("orders", **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [{"seed": -1}, {"customers": 0}, {"products": 0}, {"disorder_ms_max": 0}, {"event_interval_ms": -1}],
    ids=str,
)
def test_shape_that_makes_no_orders_is_refused(wrong: dict[str, int]) -> None:
    """Before Spark is started."""
    with pytest.raises(UsageError):
        OrderShape(**wrong)


def test_a_rate_needs_slots_for_overlapping_windows() -> None:
    """Two windows of as many tasks as the rate needs."""
    assert [slots_needed(rate) for rate in (None, 100.0, 100_000.0)] == [1, 2, 4]


def test_unknown_check_is_named_with_the_known_ones() -> None:
    """A mistake in usage."""
    with pytest.raises(UsageError, match=r"'order'.*count, orders"):
        check_named("order")


def test_check_takes_topics_and_parameters_it_knows() -> None:
    """The rest are its own names and defaults."""
    check = check_named("orders")
    assert check.topics({"orders": "mine"}) == {
        "orders": "mine",
        "large-orders": "large-orders",
        "customer-totals": "customer-totals",
        "product-revenue": "product-revenue",
    }
    assert check.with_defaults({}) == {"large_amount": "10000"}
    with pytest.raises(UsageError, match="'totals'"):
        check.topics({"totals": "x"})
    with pytest.raises(UsageError, match="'large'"):
        check.with_defaults({"large": "1"})


def test_own_check_can_be_registered() -> None:
    """And is then known by its name."""
    check = Check("mine", "", "in", read=lambda records, _parameters: records, outputs=())
    assert register(check) is check
    assert check_named("mine") is check


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (
            "org.apache.kafka.common.errors.TimeoutException: Topic x not present.\n\tat y",
            "TimeoutException: Topic x not present",
        ),
        (
            "\n  [PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03\n",
            "[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03",
        ),
        ("plain", "plain"),
        ("", "unknown error"),
    ],
)
def test_java_messages_are_cut_to_a_line(message: str, line: str) -> None:
    """The class without its package, and no stack."""
    assert first_line(message) == line


@pytest.mark.parametrize(
    ("master", "local"), [("local", True), ("local[4]", True), ("spark://host:7077", False), ("yarn", False)]
)
def test_local_masters_are_known(master: str, local: bool) -> None:
    """Only they are bound to the loopback address."""
    assert is_local(master) == local
