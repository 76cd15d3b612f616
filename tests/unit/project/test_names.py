"""Folders of tests are no packages: pytest knows their modules by name alone, and one run of all of them is one process."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[2]
REPEATED = {"conftest.py", "__init__.py"}


def test_no_two_modules_of_the_tests_have_the_same_name() -> None:
    """Each alone would pass, and the whole suite would not start."""
    names = Counter(path.name for path in TESTS.rglob("*.py") if path.name not in REPEATED)
    assert [name for name, count in names.items() if count > 1] == []
