"""The index of decisions lists every page once, under its title, with a date and a status."""

from __future__ import annotations

import re
from pathlib import Path

DECISIONS = Path(__file__).resolve().parent.parent / "docs" / "decisions"
ROW = re.compile(r"\| (\d+) \| \[(.+)\]\((.+\.md)\) \| (\d{4}-\d\d-\d\d) \| (.+) \|")
STATUS = re.compile(r"accepted|replaced by \d+")


def rows() -> list[tuple[str, ...]]:
    return ROW.findall((DECISIONS / "README.md").read_text(encoding="utf-8"))


def test_every_page_is_listed_in_order() -> None:
    pages = sorted(path.name for path in DECISIONS.glob("0*.md"))
    assert [row[2] for row in rows()] == pages


def test_number_and_title_are_those_of_the_page() -> None:
    for number, title, name, _, _ in rows():
        heading = (DECISIONS / name).read_text(encoding="utf-8").splitlines()[0]
        assert heading == f"# {number}. {title}", name
        assert name.startswith(f"{int(number):04}-")


def test_every_status_is_known() -> None:
    assert all(STATUS.fullmatch(row[4]) for row in rows())
