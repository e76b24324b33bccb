"""A ledger at rest: its one owner keeps this of a writer that has nothing to do.

    LedgerWriter._rest ──→ RestingLedger ──→ LedgerCatalog.wake ──→ another LedgerWriter

A writer is dozens of objects: a sender for each bookie, queues, a window, a watch of the record.
An owner of many ledgers that are seldom written keeps their resting ones instead, some hundred
bytes each. No bookie and no store is asked on the way, and nothing is said to them.

Why it is safe: a writer rests only when all of its bookies are up and have acknowledged everything
that they were sent, and no change of the record is under way. So the next writer begins where a new
writer of a fragment that starts at LAC + 1 begins. A take-over in the meantime is found as ever:
its bookies are fenced, and its record has another version (docs/protocol.md, "Fencing").

The owner wakes a resting ledger once: a ledger has one writer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from quire.entry import BookieId, EntryId, Sealer
from quire.ledger.ledger_record import LedgerRecord

NO_SUSPECTS: Final[Mapping[BookieId, float]] = {}
"""Shared by all ledgers at rest without suspects."""


@dataclass(frozen=True, slots=True)
class RestingLedger:
    """An open ledger without a writer, to be written on by the process that wrote it."""

    record: LedgerRecord
    sealer: Sealer
    last: EntryId
    """The last entry, confirmed and told to followers; −1 for none."""
    length: int
    """Payload bytes up to it."""
    suspects: Mapping[BookieId, float]
    """Bookies that failed its writers, and the loop time until they may be spares again."""
