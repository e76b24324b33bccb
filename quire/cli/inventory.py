"""How the inventory of a ledger is printed."""

from __future__ import annotations

from typing import Final

import click

from quire.cli.output import Value, note, print_table
from quire.entry import NO_ENTRY
from quire.ledger.inventory import Inventory
from quire.ledger.ranges import Ranges

RANGES_SHOWN: Final = 8
SHORTAGES_SHOWN: Final = 20
"""A striped ledger has as many ranges as entries: tables show the first."""


def inventory_fields(found: Inventory) -> Value:
    """Return all that an inventory says, for programs."""
    return {
        "ledger": found.ledger.ledger,
        "state": str(found.ledger.state),
        "compared_to": found.compared_to,
        "write_quorum": found.ledger.replication.write_quorum,
        "bookies": [
            {
                "bookie": each.bookie,
                "held": [list(pair) for pair in each.held],
                "missing": [list(pair) for pair in each.missing],
                "error": each.error or None,
            }
            for each in found.holdings
        ],
        "shortages": [
            {"first": each.first, "last": each.last, "copies": each.copies, "unknown": each.unknown}
            for each in found.shortages
        ],
    }


def print_inventory(found: Inventory) -> None:
    """Print an inventory for people: a table by bookie, and one of entries with too few copies."""
    rows = []
    for each in found.holdings:
        known = (ranges_text(each.held), ranges_text(each.missing))
        rows.append((each.bookie, *(("no answer", "unknown") if each.error else known)))
        if each.error:
            note(each.error)
    print_table(("bookie", "holds", "lacks"), rows, empty="")
    click.echo()
    quorum = found.ledger.replication.write_quorum
    counts = [
        (ranges_text([(each.first, each.last)]), f"{each.copies} of {quorum}", each.unknown)
        for each in found.shortages
    ]
    if counts:
        shown = counts[:SHORTAGES_SHOWN]
        print_table(("entries", "copies", "unknown"), shown, empty="")
        if len(counts) > len(shown):
            click.echo(f"and {len(counts) - len(shown)} ranges more; --json gives them all")
    elif found.compared_to == NO_ENTRY:
        click.echo("There is nothing to compare.")
    else:
        click.echo(f"Entries 0 to {found.compared_to} have all {quorum} copies.")
    if not found.ledger.is_closed:
        note("The ledger is not closed: what its last ensemble must hold is not decided yet.")


def ranges_text(ranges: Ranges) -> str:
    """Return ranges of entries as people read them, only the first of many."""
    shown = [f"{low}" if low == high else f"{low}-{high}" for low, high in ranges[:RANGES_SHOWN]]
    more = len(ranges) - len(shown)
    return ", ".join(shown) + (f" and {more} ranges more" if more else "") or "-"
