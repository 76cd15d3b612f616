"""What a report says, and when it is content."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from kstreams_worker.pipeline.report import Comparison, Example, Fault, OutputReport, Place, Report

EQUAL = OutputReport("out", Comparison.MULTISET, 10, 10, 10, missing=0, extra=0, doubled=0, wrong=0)


def report(*outputs: OutputReport, **changes: object) -> Report:
    return replace(Report("orders", "exactly_once_v2", "in", 12, 0, outputs, 1.5), **changes)


def shown(of: Report) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(of)
    return console.file.getvalue()


def test_report_without_faults_is_ok() -> None:
    """Every output is equal."""
    assert report(EQUAL, EQUAL).ok


@pytest.mark.parametrize("fault", list(Fault))
def test_any_fault_of_any_output_is_not_ok_under_exactly_once(fault: Fault) -> None:
    """One is enough."""
    assert not report(EQUAL, replace(EQUAL, **{fault.value: 1})).ok


@pytest.mark.parametrize("fault", list(Fault))
def test_at_least_once_allows_doubles_only(fault: Fault) -> None:
    """Nothing may be lost, invented or wrong even so."""
    assert report(replace(EQUAL, **{fault.value: 1}), guarantee="at_least_once").ok == (fault is Fault.DOUBLED)


def test_output_is_found_by_its_topic() -> None:
    """A missing one is a KeyError, not a None that passes for equal."""
    assert report(EQUAL).output("out") is EQUAL
    with pytest.raises(KeyError):
        report(EQUAL).output("other")


def test_json_has_everything_in_one_line() -> None:
    """Scripts find the verdict, the counts and the examples."""
    example = Example(Fault.WRONG, "key", "1", "2", Place("out", 3, 4), "a note")
    line = report(replace(EQUAL, wrong=1, examples=(example,))).to_json()
    assert "\n" not in line
    facts = json.loads(line)
    assert facts["ok"] is False
    (output,) = facts["outputs"]
    assert (output["topic"], output["comparison"], output["wrong"]) == ("out", "multiset", 1)
    assert output["examples"] == [
        {
            "fault": "wrong",
            "key": "key",
            "expected": "1",
            "actual": "2",
            "place": {"topic": "out", "partition": 3, "offset": 4},
            "note": "a note",
        }
    ]


def test_table_shows_counts_examples_and_the_verdict() -> None:
    """People see the same; a long record is cut, an absent one a dash."""
    example = Example(Fault.MISSING, "the-key", "x" * 500, None, Place("in", 3, 4))
    text = shown(report(replace(EQUAL, expected=1_234_567, missing=2, examples=(example,)), input_unreadable=3))
    assert "1,234,567" in text
    assert "different" in text
    assert "the-key" in text
    assert "in[3]@4" in text
    assert "x" * 200 not in text.replace("\n", "").replace(" ", "")
    assert "3 of them unreadable" in " ".join(text.split())


def test_table_fits_a_narrow_terminal() -> None:
    """No line of counts is wider than 80 columns for topics of usual length."""
    console = Console(file=io.StringIO(), width=80)
    console.print(report(replace(EQUAL, topic="customer-totals", expected=99_999_999, actual=99_999_999)))
    assert "99,999,999" in console.file.getvalue()
