"""The outputs of examples/orders.py, verified: equal ones pass, and each kind of fault is found and counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from pyspark.sql import SparkSession
from topics import Record, Row, Topics

from kstreams_worker.pipeline.access import KafkaAccess
from kstreams_worker.pipeline.generator import GeneratedOrders, OrderShape
from kstreams_worker.pipeline.produce import ProducePlan, produce
from kstreams_worker.pipeline.report import Fault, OutputReport, Report
from kstreams_worker.pipeline.verify import verify

ORDERS = 1_200
LARGE_CENTS = 10_000


@dataclass
class Outputs:
    """What the topology writes for an input, computed without Spark: to be spoiled before it is written."""

    large: list[Row] = field(default_factory=list)
    customers: list[Row] = field(default_factory=list)
    products: list[Row] = field(default_factory=list)

    @classmethod
    def of(cls, orders: list[Record], every: int) -> Outputs:
        """Totals are forwarded after each `every` orders, as a record cache does."""
        outputs = cls()
        totals: dict[str, dict[str, dict[str, int]]] = {"customer": {}, "product": {}}
        dirty: dict[str, set[str]] = defaultdict(set)
        for number, record in enumerate(orders, start=1):
            order = record.json()
            if order["amount"] >= LARGE_CENTS:
                outputs.large.append((record.key, record.value))
            for name, total_of in totals.items():
                total = total_of.setdefault(order[name], {"count": 0, "amount": 0})
                total["count"] += 1
                total["amount"] += order["amount"]
                dirty[name].add(order[name])
            if number % every == 0 or number == len(orders):
                outputs.customers += ((key, dict(totals["customer"][key])) for key in sorted(dirty["customer"]))
                outputs.products += ((key, dict(totals["product"][key])) for key in sorted(dirty["product"]))
                dirty.clear()
        return outputs


class Run:
    """One input that all tests share, and outputs of their own."""

    def __init__(self, spark: SparkSession, access: KafkaAccess, topics: Topics) -> None:
        self._spark, self._access, self._topics = spark, access, topics
        self.input = topics.create("orders", partitions=2)
        source = GeneratedOrders(spark, OrderShape(seed=11, customers=40, products=8))
        produce(spark, source, access, ProducePlan(self.input, records=ORDERS))
        self._orders = topics.read(self.input)
        assert len(self._orders) == ORDERS

    def outputs(self, every: int = 100) -> Outputs:
        return Outputs.of(self._orders, every)

    def input_record(self, order_id: object) -> Record:
        (record,) = (record for record in self._orders if record.json()["order_id"] == order_id)
        return record

    def verify(self, outputs: Outputs, **options: object) -> tuple[Report, dict[str, OutputReport]]:
        """Write the outputs, and among them what an aborted transaction leaves; returns the report, by output too."""
        names = {"orders": self.input}
        written = {
            "large-orders": outputs.large,
            "customer-totals": outputs.customers,
            "product-revenue": outputs.products,
        }
        for name, rows in written.items():
            names[name] = self._topics.create(name)
            self._topics.write(names[name], rows[: len(rows) // 2])
            self._topics.write(names[name], [*rows[:5], ("nobody", {"count": 1, "amount": 1})], transaction="abort")
            self._topics.write(names[name], rows[len(rows) // 2 :])
        report = verify(self._spark, "orders", self._access, topics=names, **options)
        return report, {name: report.output(names[name]) for name in written}


@pytest.fixture(scope="module")
def run(spark: SparkSession, access: KafkaAccess, kafka: object) -> Iterator[Run]:
    return Run(spark, access, Topics(kafka))


def faults(output: OutputReport) -> dict[str, int]:
    return {fault.value: output.count(fault) for fault in Fault if output.count(fault)}


def test_correct_outputs_are_equal(run: Run) -> None:
    """Whatever the number of updates per key, and with aborted transactions among them."""
    outputs = run.outputs(every=7)
    report, by_name = run.verify(outputs)
    assert report.ok, report.to_json()
    assert (report.input_records, report.input_unreadable) == (ORDERS, 0)
    assert by_name["large-orders"].expected == by_name["large-orders"].actual == len(outputs.large) > 20
    assert by_name["customer-totals"].actual == len({key for key, _ in outputs.customers})
    assert by_name["customer-totals"].records == len(outputs.customers)
    assert not any(output.examples for output in report.outputs)


def test_every_fault_is_found_and_told_apart(run: Run) -> None:
    """In each output, with its number and an example that says where."""
    outputs = run.outputs()
    missing, doubled, wrong = outputs.large[0], outputs.large[1], outputs.large[2]
    outputs.large[2] = (wrong[0], wrong[1].replace(b'"amount":', b'"amount":1'))
    outputs.large += [doubled, doubled, ("nobody", {"order_id": "made up", "amount": 20_000})]
    del outputs.large[0]

    last = {key: number for number, (key, _) in enumerate(outputs.customers)}
    lost, changed, repeated, *_ = sorted(last)
    amount = outputs.customers[last[changed]][1]["amount"]
    outputs.customers[last[changed]][1]["amount"] = amount + 1
    outputs.customers.append(outputs.customers[last[repeated]])
    outputs.customers.append(("nobody", {"count": 1, "amount": 5}))
    outputs.customers = [row for row in outputs.customers if row[0] != lost]

    product = outputs.products[0][0]
    (earlier, *_, final) = [value for key, value in outputs.products if key == product]
    outputs.products += [(product, earlier), (product, final)]

    report, by_name = run.verify(outputs)
    assert not report.ok
    large, customers, products = by_name.values()
    assert faults(large) == {"missing": 1, "extra": 1, "doubled": 2, "wrong": 1}
    assert faults(customers) == {"missing": 1, "extra": 1, "doubled": 1, "wrong": 1}
    assert faults(products) == {"doubled": 2}

    shown = {example.fault: example for example in large.examples}
    assert set(shown) == set(Fault)
    order = run.input_record(shown[Fault.MISSING].expected.partition('"order_id":"')[2].partition('"')[0])
    assert (order.key, order.value) == missing
    assert shown[Fault.MISSING].place.topic == run.input
    assert (shown[Fault.MISSING].place.partition, shown[Fault.MISSING].place.offset) == (order.partition, order.offset)
    assert shown[Fault.EXTRA].actual == '{"amount":20000,"order_id":"made up"}'
    assert (shown[Fault.DOUBLED].key, shown[Fault.DOUBLED].note) == (doubled[0], "there 3 times, expected 1")
    assert shown[Fault.WRONG].expected != shown[Fault.WRONG].actual
    assert shown[Fault.WRONG].place.topic == large.topic

    shown = {example.fault: example for example in customers.examples}
    assert (shown[Fault.MISSING].key, shown[Fault.MISSING].actual) == (lost, None)
    assert (shown[Fault.EXTRA].key, shown[Fault.EXTRA].expected) == ("nobody", None)
    assert shown[Fault.DOUBLED].key == repeated
    assert shown[Fault.WRONG].key == changed
    assert f'"amount":{amount}}}' in shown[Fault.WRONG].expected
    assert f'"amount":{amount + 1}}}' in shown[Fault.WRONG].actual


def test_at_least_once_counts_doubles_and_allows_them(run: Run) -> None:
    """A large order written twice, updates written again, and totals that counted some orders twice."""
    outputs = run.outputs()
    outputs.large.append(outputs.large[0])
    outputs.products += outputs.products[-8:]
    key, total = outputs.customers[-1]
    outputs.customers.append((key, {"count": total["count"] + 3, "amount": total["amount"] + 77}))
    report, by_name = run.verify(outputs, guarantee="at_least_once")
    assert report.ok, report.to_json()
    assert [faults(output) for output in by_name.values()] == [{"doubled": 1}, {"doubled": 3}, {"doubled": 8}]


def test_at_least_once_allows_no_loss(run: Run) -> None:
    """A total that counted too few is wrong, as is one that has the right count and another sum."""
    outputs = run.outputs(every=ORDERS)
    last = {key: number for number, (key, _) in enumerate(outputs.customers)}
    low, other, *_ = sorted(last)
    outputs.customers[last[low]][1]["count"] -= 1
    outputs.customers[last[other]][1]["amount"] -= 1
    report, by_name = run.verify(outputs, guarantee="at_least_once", examples_max=0)
    assert not report.ok
    assert faults(by_name["customer-totals"]) == {"wrong": 2}
    assert not by_name["customer-totals"].examples


def test_threshold_is_a_parameter(run: Run) -> None:
    """With a lower one, the orders between are missing."""
    outputs = run.outputs()
    report, by_name = run.verify(outputs, parameters={"large_amount": "9000"})
    between = [record for record in run._orders if 9_000 <= record.json()["amount"] < LARGE_CENTS]
    assert faults(by_name["large-orders"]) == {"missing": len(between)}
    assert len(by_name["large-orders"].examples) == min(3, len(between))
    assert not report.ok
