"""How the inventory of a ledger is printed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Final

import click

from quire.cli.output import Value, note, print_table
from quire.client import Client
from quire.entry import NO_ENTRY, BookieId, LedgerId
from quire.errors import NoSuchLedgerError
from quire.ledger.inventory import Inventory
from quire.ledger.ranges import Ranges

RANGES_SHOWN: Final = 8
SHORTAGES_SHOWN: Final = 20
"""A striped ledger has as many ranges as entries: tables show the first."""

AT_ONCE: Final = 16
"""Ledgers compared together."""

OUTLINED_AT_ONCE: Final = 1000
"""Ledgers whose outlines are asked for together."""


async def inventories(
    client: Client, ledgers: Sequence[LedgerId], on_progress: Callable[[int, int], None]
) -> AsyncIterator[Inventory]:
    """Yield the inventories of ledgers in their order, without those that are deleted meanwhile.

    Raises the store's errors. A bookie that does not answer is part of each inventory.
    """
    for first in range(0, len(ledgers), AT_ONCE):
        async for each in _inventories_of(client, ledgers[first : first + AT_ONCE]):
            yield each
        on_progress(min(first + AT_ONCE, len(ledgers)), len(ledgers))


async def doubtful_inventories(
    client: Client,
    ledgers: Sequence[LedgerId],
    on_progress: Callable[[int, int], None],
    up: Collection[BookieId] | None = None,
) -> AsyncIterator[Inventory]:
    """Yield the inventories of ledgers that are not whole by their bookies' outlines.

    A bookie that is not in `up`, or does not answer, holds nothing; None: all are up. Raises as
    `inventories`.
    """
    for first in range(0, len(ledgers), OUTLINED_AT_ONCE):
        some = ledgers[first : first + OUTLINED_AT_ONCE]
        whole = await client.whole_ledgers(some, up)
        doubtful = [each for each in some if each not in whole]
        for at in range(0, len(doubtful), AT_ONCE):
            async for each in _inventories_of(client, doubtful[at : at + AT_ONCE]):
                yield each
        on_progress(min(first + OUTLINED_AT_ONCE, len(ledgers)), len(ledgers))


async def _inventories_of(client: Client, ledgers: Sequence[LedgerId]) -> AsyncIterator[Inventory]:
    for each in await asyncio.gather(*(_unless_deleted(client, ledger) for ledger in ledgers)):
        if each is not None:
            yield each


async def _unless_deleted(client: Client, ledger: LedgerId) -> Inventory | None:
    try:
        return await client.ledger_inventory(ledger)
    except NoSuchLedgerError:
        return None


def summary_row(found: Inventory) -> tuple[object, ...]:
    """Return one line for a ledger among many: how many entries are short, and of how much."""
    short = sum(each.last - each.first + 1 for each in found.shortages)
    fewest = min((each.copies for each in found.shortages), default=None)
    quorum = found.ledger.replication.write_quorum
    copies = f"all {quorum}" if fewest is None else f"{fewest} of {quorum}"
    return (found.ledger.ledger, str(found.ledger.state), found.compared_to + 1, short, copies)


SUMMARY: Final = ("ledger", "state", "entries compared", "short", "fewest copies")


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
