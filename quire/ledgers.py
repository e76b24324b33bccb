"""Ledgers: append-only sequences of entries with one writer, below logs.

    async with await client.create_ledger() as writer:
        await writer.append(b"entry")

`Client` creates and opens them. Most applications use logs instead. Values that describe a ledger
are in `quire.inspect`.
"""

from quire.entry import NO_ENTRY, BookieId, DigestKind, Entry, EntryId, LedgerId
from quire.labels import Domain, Labels
from quire.ledger.domains import Placement, Spread, Within
from quire.ledger.numbered import NumberedWriter
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import Replication
from quire.ledger.reader import LedgerReader
from quire.ledger.writer import LedgerWriter

__all__ = [
    "NO_ENTRY",
    "BookieId",
    "DigestKind",
    "Domain",
    "Entry",
    "EntryId",
    "Labels",
    "LedgerId",
    "LedgerOptions",
    "LedgerReader",
    "LedgerWriter",
    "NumberedWriter",
    "Placement",
    "Replication",
    "Spread",
    "Within",
]
