"""Comparing every ledger with the entries that bookies hold: after a restore, or when in doubt.

A backup lacks all later changes. So besides lost and missing copies, the check finds entries that
bookies hold beyond the end that a record names: such a ledger continued after the backup.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple

from quire.entry import EntryId, LedgerId
from quire.errors import CorruptRecordError, NoSuchLedgerError
from quire.ledger.catalog import LedgerCatalog
from quire.ledger.inventory import Inventory, take_inventory
from quire.ledger.ranges import Ranges
from quire.ledger.roster import BookieRoster


class Finding(NamedTuple):
    """The defects of one ledger."""

    ledger: LedgerId
    lost: Ranges
    """Entries without a copy, as far as the bookies that answered know."""
    short: Ranges
    """Entries with some copies, and fewer than the write quorum."""
    beyond: EntryId | None
    """The highest entry that a bookie holds after the end that the record names."""
    silent: Sequence[str]
    """Bookies that must hold entries of it and did not answer."""
    damage: str = ""
    """Why the ledger's record cannot be believed; nothing else is known of the ledger then."""

    @property
    def is_loss(self) -> bool:
        """Whether something is lost, or will be if it is left as it is."""
        return bool(self.lost or self.damage) or self.beyond is not None


async def check_ledgers(
    roster: BookieRoster, catalog: LedgerCatalog, request_timeout: float
) -> AsyncGenerator[tuple[int, int, Finding | None], None]:
    """Compare every ledger; yield the number done, the total, and the defects of the last.

    Changes nothing. A damaged record is a defect of its ledger, and hides no other. Raises the
    store's errors.
    """
    ledgers = await catalog.list()
    for done, ledger in enumerate(ledgers, 1):
        try:
            inventory = await take_inventory(catalog.records, roster, ledger, request_timeout)
        except NoSuchLedgerError:  # deleted meanwhile
            yield done, len(ledgers), None
            continue
        except CorruptRecordError as error:
            yield done, len(ledgers), Finding(ledger, [], [], None, [], str(error))
            continue
        yield done, len(ledgers), judge(inventory)


def judge(inventory: Inventory) -> Finding | None:
    """Return the defects of a ledger, None without any. Pure."""
    lost = [(each.first, each.last) for each in inventory.shortages if not each.copies]
    short = [(each.first, each.last) for each in inventory.shortages if each.copies]
    highest = max((held[-1][1] for each in inventory.holdings if (held := each.held)), default=-1)
    end = inventory.ledger.last_entry
    beyond = highest if end is not None and highest > end else None
    silent = [each.bookie for each in inventory.holdings if each.error]
    if not lost and not short and beyond is None:
        return None
    return Finding(inventory.ledger.ledger, lost, short, beyond, silent)
