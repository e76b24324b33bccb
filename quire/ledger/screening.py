"""Closed ledgers whose outlines show every copy: none of their lists has to be looked at.

An outline tells that a bookie holds its whole share only if the share is dense (`Verdict.WHOLE`).
Shares of striped ledgers are not, and such ledgers are looked at as before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from quire.aio.tasks import together
from quire.entry import BookieId, LedgerId
from quire.errors import NoSuchLedgerError
from quire.ledger.metadata import Fragment, LedgerMetadata
from quire.ledger.outlines import Verdict, judge, outlines_of, owed
from quire.ledger.records import LedgerRecords
from quire.ledger.roster import Bookies
from quire.outline import Outline

AT_ONCE: Final = 64
"""Records read together."""


async def whole_among(
    records: LedgerRecords,
    bookies: Bookies,
    ledgers: Sequence[LedgerId],
    up: Collection[BookieId] | None,
    request_timeout: float,
) -> set[LedgerId]:
    """Return the closed ledgers whose bookies all hold their whole shares, as they tell.

    Args:
        records: the records of ledgers.
        bookies: the way to bookies.
        ledgers: some ids; ids without a record are passed over.
        up: the bookies that count; None: each that answers.
        request_timeout: seconds for each question to a bookie.

    Returns:
        Ledgers that are whole. Nothing is known of the others.

    Raises:
        StoreUnavailableError: the metadata store does not answer.
    """
    whole: set[LedgerId] = set()
    owes: dict[BookieId, dict[LedgerId, Outline]] = {}
    for metadata in await _closed(records, ledgers):
        shares = dict(_shares(metadata))
        if up is None or shares.keys() <= set(up):
            whole.add(metadata.ledger)
            for bookie, share in shares.items():
                owes.setdefault(bookie, {})[metadata.ledger] = share
    wanted = {bookie: list(shares) for bookie, shares in owes.items()}
    told = await outlines_of(bookies, wanted, request_timeout)
    for bookie, asked in owes.items():
        answers = told.get(bookie, {})
        whole -= {
            ledger
            for ledger, share in asked.items()
            if judge(share, answers.get(ledger)) is not Verdict.WHOLE
        }
    return whole


async def _closed(records: LedgerRecords, ledgers: Sequence[LedgerId]) -> list[LedgerMetadata]:
    found: list[LedgerMetadata] = []

    async def read(ledger: LedgerId) -> None:
        try:
            metadata = (await records.read(ledger)).metadata
        except NoSuchLedgerError:
            return
        if metadata.is_closed:
            found.append(metadata)

    for at in range(0, len(ledgers), AT_ONCE):
        await together(*(read(each) for each in ledgers[at : at + AT_ONCE]))
    return found


def _shares(metadata: LedgerMetadata) -> Iterator[tuple[BookieId, Outline]]:
    """Yield the bookies of fragments with entries, and their shares."""
    last = metadata.last_entry
    assert last is not None, "a closed ledger has a last entry, -1 without any"
    kept: list[Fragment] = [each for each in metadata.fragments if each.first <= last]
    firsts = [each.first for each in kept]
    ensembles = [each.bookies for each in kept]
    for bookie in {name for ensemble in ensembles for name in ensemble}:
        yield bookie, owed(metadata.replication, firsts, ensembles, last, bookie)
