"""The tables of ablations and the page that shows what became of each."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.sim.ablations.__main__ import PAGE, name_of, renew, row
from tests.sim.ablations.catalog import ABLATIONS
from tests.sim.ablations.hunt import Finding


def table(page: Path) -> list[str]:
    text = page.read_text().partition("<!-- ablations: make ablations -->")[2]
    return text.partition("<!-- ablations end -->")[0].splitlines()[3:]


def test_the_page_has_a_row_for_every_ablation_in_their_order() -> None:
    """A new ablation gets its row from `python -m tests.sim.ablations --only NAME`."""
    assert [name_of(line) for line in table(PAGE)] == [each.name for each in ABLATIONS]


def test_a_hunt_of_some_leaves_the_rows_of_the_others(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text())
    before = table(page)
    line = f"| {ABLATIONS[1].name} | ledger | 7 |  | 1.0 | `a checker` |"
    renew(page, [line, "| no such safeguard | ledger | 7 |  | 1.0 | `a checker` |"])
    assert table(page) == [before[0], line, *before[2:]]
    renew(page, [before[1]])
    assert page.read_text() == PAGE.read_text()


def test_a_row_quotes_the_checkers_or_gives_the_note() -> None:
    noted = next(each for each in ABLATIONS if each.note)
    missed = row(Finding(noted, 60, [], Counter(), [], 1.0))
    assert missed.endswith(f"| none in 60 | – | 0.0 | {noted.note} |")
    checkers = Counter({"C4 first": 2, "seal": 1})
    found = row(Finding(noted, 6, [1, 3, 5], checkers, [0, 1], 1.0))
    assert found.endswith("| 1 | 0 | 500.0 | `C4 first`, `seal` |")
