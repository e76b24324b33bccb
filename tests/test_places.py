"""Every path that docs/architecture.md and CONTRIBUTING.md name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import FIRST, MARKS
from tests.support.schedule import TOGETHER, scope_of

ROOT = Path(__file__).resolve().parent.parent
NAMED = re.compile(r"`((?:quire|tests|docs|spec|tutorial)/[\w./-]+)`")
PAGES = (
    "docs/architecture.md",
    "CONTRIBUTING.md",
    "docs/protocol.md",
    "docs/testing.md",
    "docs/ablations.md",
)


def named() -> list[tuple[str, str]]:
    return [
        (page, path)
        for page in PAGES
        for path in sorted(set(NAMED.findall((ROOT / page).read_text(encoding="utf-8"))))
    ]


@pytest.mark.parametrize(("page", "path"), named())
def test_a_named_path_exists(page: str, path: str) -> None:
    assert (ROOT / path).exists(), f"{page} names {path}"


def test_marks_are_for_places_that_exist() -> None:
    """A mark of a place that moved would make `make quick` slow without a word, and a turn of one
    would leave workers idle at the end of `make test`.
    """
    places = [*FIRST, *(place for group in MARKS.values() for place in group)]
    assert [place for place in places if not (ROOT / "tests" / place).exists()] == []


def test_tests_that_stay_together_exist_and_others_are_a_file() -> None:
    assert [each for each in TOGETHER if not (ROOT / each).is_dir()] == []
    assert scope_of("tests/spark/test_a.py::test_b[1]") == scope_of("tests/spark/test_c.py::test_d")
    assert scope_of("tests/log/test_a.py::TestB::test_c") == "tests/log/test_a.py"


def test_pages_name_paths() -> None:
    assert len(named()) > 30
