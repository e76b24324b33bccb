"""Every path that docs/architecture.md and CONTRIBUTING.md name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import FIRST, MARKS

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


def test_pages_name_paths() -> None:
    assert len(named()) > 30
