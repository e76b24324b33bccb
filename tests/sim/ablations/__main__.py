"""The command: hunt every ablation and renew the table in docs/ablations.md.

    python -m tests.sim.ablations [--seeds 3000] [--jobs 2] [--only NAME]

The table says the first seed that fails, the first whose trace the specification refuses, the
density per thousand seeds and the checker that spoke. Rows that were not hunted stay as they are.
Where a note names a test and no seed failed, that test is run without the safeguard.
Exit code 1 when no seed noticed a safeguard without a note, when the test of a note noticed
nothing, or when runs without an end or errors alone showed a loss that breaks an invariant.
Ctrl-C and SIGTERM end it, and its processes.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click

from tests.sim.ablations.catalog import ABLATIONS
from tests.sim.ablations.directed import is_noticed
from tests.sim.ablations.hunt import FAILURES_SHOWN, Finding, Hunt, carry_out, is_blunt
from tests.sim.ablations.patch import Ablation
from tests.sim.campaign import let_the_parent_decide

PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "ablations.md"
NOTED: Final = 4
"""What has a note is looked for in so many times fewer seeds."""

BEGIN: Final = "<!-- ablations: make ablations -->"
END: Final = "<!-- ablations end -->"
HEAD: Final = (
    "| safeguard removed | workload | first seed | first refused by the specification "
    "| per 1,000 | noticed by, or why not |",
    "|---|---|---|---|---|---|",
)


def row(found: Finding) -> str:
    """One line of the table."""
    ablation = found.ablation
    first = str(found.failures[0]) if found.failures else f"none in {found.seeds:,}"
    density = f"{1000 * len(found.failures) / found.seeds:.1f}"
    said = sorted((name for name, _ in found.checkers.most_common()), key=is_blunt)
    names = ", ".join(f"`{name}`" for name in said[:2])
    refused = str(found.refused[0]) if found.refused else "–"
    cells = (
        ablation.name,
        ablation.workload,
        first,
        refused,
        density,
        names or ablation.note or "?",
    )
    return "| " + " | ".join(cells) + " |"


def name_of(line: str) -> str:
    """The safeguard that a row of the table is about."""
    return line.split("|")[1].strip()


def renew(page: Path, rows: Iterable[str]) -> None:
    """Put rows into the table between the page's markers; rows that were not hunted stay.

    The order is that of the catalog. A row of a safeguard that is not in it any more goes.
    """
    before, _, rest = page.read_text().partition(BEGIN)
    old, _, after = rest.partition(END)
    lines = {name_of(line): line for line in old.splitlines()[3:]}
    lines.update((name_of(line), line) for line in rows)
    table = [lines[each.name] for each in ABLATIONS if each.name in lines]
    page.write_text("\n".join([f"{before}{BEGIN}", *HEAD, *table, f"{END}{after}"]))


def is_excused(ablation: Ablation) -> bool:
    """Return whether a note says why no seed failed, and its test, if it names one, fails."""
    if not ablation.test:
        return bool(ablation.note)
    noticed = is_noticed(ablation)
    click.echo(f"  {ablation.test}: {'fails, as it must' if noticed else 'NOTICES NOTHING'}")
    return noticed


@click.command(help=__doc__)
@click.option("--seeds", type=int, default=2000, show_default=True)
@click.option("--failures", type=int, default=FAILURES_SHOWN, show_default=True)
@click.option("--jobs", type=int, default=1, show_default=True, help="Processes.")
@click.option("--only", default="", help="Part of a name.")
def main(seeds: int, failures: int, jobs: int, only: str) -> None:
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    hunts = [
        Hunt(each, range(seeds // NOTED if each.note else seeds), failures)
        for each in ABLATIONS
        if only in each.name
    ]
    rows: list[str] = []
    missed = 0
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs, let_the_parent_decide) as pool:
        for found in pool.imap(carry_out, hunts):
            rows.append(row(found))
            click.echo(f"{rows[-1]} {found.seconds:.0f} s")
            missed += found.is_blunt or (not found.failures and not is_excused(found.ablation))
            if found.is_blunt:
                click.echo("  NO INVARIANT SPOKE: the patch may break more than its safeguard")
    renew(PAGE, rows)
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
