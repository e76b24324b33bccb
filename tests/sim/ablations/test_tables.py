"""The tables of ablations and the page that shows what became of each."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.sim.ablations.__main__ import PAGE, name_of, renew, row
from tests.sim.ablations.catalog import ABLATIONS
from tests.sim.ablations.hunt import Finding
from tests.sim.ablations.patch import WITHOUT_END, Ablation
from tests.sim.history import ENDS


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


def test_an_invariant_speaks_in_every_row_or_the_ablation_says_what_shows_it() -> None:
    found = [
        Finding(ablation, 1, [0], Counter(re.findall("`([^`]+)`", line.split("|")[6])), [], 1.0)
        for ablation, line in zip(ABLATIONS, table(PAGE), strict=True)
        if "| none in " not in line
    ]
    assert [each.ablation.name for each in found if each.is_blunt] == []


@pytest.mark.parametrize(
    ("checkers", "shows", "is_blunt"),
    [
        ([ENDS, "SimLivelock"], (), True),
        ([ENDS], WITHOUT_END, False),
        (["SimLivelock"], WITHOUT_END, False),
        ([ENDS, "seal"], (), False),
        (["InvalidRequestError"], WITHOUT_END, True),
        (["InvalidRequestError"], ("InvalidRequestError",), False),
        (["B1 a fence is for ever"], (), False),
        ([], (), False),
    ],
)
def test_a_run_without_an_end_is_no_invariant(
    checkers: list[str], shows: tuple[str, ...], is_blunt: bool
) -> None:
    ablation = Ablation("any", "ledger", list, shows=shows)
    assert Finding(ablation, 9, [1], Counter(checkers), [], 1.0).is_blunt == is_blunt


class Applier:
    """Production code that notes an error, and goes on."""

    async def apply(self) -> None:
        """Nothing."""

    def at(self) -> int:
        return 1

    async def run(self) -> None:
        with suppress(Exception):
            await self.apply()
        with suppress(Exception):
            self.at()


async def test_a_misfit_that_production_code_swallows_is_known() -> None:
    async def apply(self: Any) -> None:
        await self.position

    def at(self: Any) -> int:
        return len(1)  # type: ignore[arg-type]

    whole = Ablation("one", "ledger", lambda: [(Applier, "apply", apply), (Applier, "at", at)])
    with whole.removed() as misfits:
        await Applier().run()
    assert list(map(type, misfits)) == [AttributeError, TypeError]
