"""Which ledgers a bookie may have had something of, as the metadata store tells.

These are more than the ledgers with a fragment that names the bookie:

  - A recovery or a closing writer gives entries to bookies that metadata names only afterwards
    (docs/protocol.md, "Recovery" 5 and F1). So every ledger that is being ended may have used it.
  - A bookie that was fenced for a ledger may have left its metadata since. So the bookie may have
    lost a fence of every ledger that was ever ended.
  - A record of an older incarnation may lack later ensembles (docs/protocol.md, I2). So the bookie
    may have lost entries of every open ledger that is older than the restore.
  - A ledger without a record was deleted, and its fence must outlive it (B11), or it was not
    created yet: the store cannot tell which. Clients throw away ids that they drew long ago. So an
    id below a ledger made a day ago counts as deleted and stays in doubt; a younger id counts as
    not created yet.

An open ledger of this incarnation that never named the bookie cannot have lost anything here.

A clock that was put back would make all ids young. So the present is never earlier than the newest
ledger was made. A clock that goes ahead only keeps more ids in doubt.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Final

from quire.aio.tasks import together
from quire.entry import BookieId, LedgerId
from quire.errors import CorruptRecordError, NoSuchLedgerError, NoSuchNodeError
from quire.ledger.metadata import LedgerMetadata, LedgerState
from quire.ledger.records import LedgerRecords
from quire.ledger.recovery_plan import is_older
from quire.ledger.stored_records import StoredRecords
from quire.metastore.cluster import adopted_incarnation
from quire.metastore.layout import LEDGER_IDS
from quire.metastore.record import decode_record
from quire.metastore.store import MetadataStore
from quire.storage.entries.doubtful import Horizon
from quire.storage.offline.salvage import Doubt

READS_AT_ONCE = 32

SETTLED_SECONDS: Final = 24 * 3600.0
"""Far more than `BLOCK_SECONDS` (ledger/ids.py), for clocks that differ by hours."""


async def count(
    store: MetadataStore, bookie: BookieId, settled_before_ms: float
) -> tuple[list[Doubt], Horizon]:
    """Return the ledgers that a bookie may have had, ascending, and the horizon around all it may
    have fenced.

    Args:
        settled_before_ms: Ids that were drawn before this time (ms since 1970) belong to ledgers
            that exist or were deleted. Infinity: all ids do. So do ids that were drawn a day before
            the newest ledger was made.

    Raises the store's errors and `CorruptRecordError`: a ledger that cannot be looked at is not
    left out. Raises `StoreWentBackError` when the store's metadata went back and was not adopted,
    or is being put back.
    """
    below = await _next_ledger(store)
    incarnation = await adopted_incarnation(store)
    made: dict[LedgerId, int] = {}
    doubts: list[Doubt] = []
    clean: list[tuple[LedgerId, LedgerId]] = []
    records = StoredRecords(store, random.Random())
    async for page in records.list():
        for start in range(0, len(page), READS_AT_ONCE):
            ledgers = page[start : start + READS_AT_ONCE]
            found = await together(*(_metadata(records, each) for each in ledgers))
            for metadata in sorted(filter(None, found), key=lambda each: each.ledger):
                made[metadata.ledger] = metadata.created_ms
                below = max(below, metadata.ledger + 1)
                if may_have(metadata, bookie):
                    doubts.append(Doubt(metadata.ledger, metadata.key_check))
                elif _is_untouched(metadata, incarnation):
                    clean.append((metadata.ledger, metadata.ledger))
    clean += gaps(sorted(made), _first_young(made, below, settled_before_ms), below)
    return sorted(doubts), Horizon.around(sorted(clean), below)


def _first_young(made: Mapping[LedgerId, int], below: LedgerId, settled_before_ms: float) -> int:
    """Return the id from which on an id without a record counts as not created yet. Pure.

    `made` tells when each ledger was made, in ms since 1970 of its creator's clock.
    """
    if settled_before_ms == math.inf:
        return below
    newest = max(made.values(), default=0)
    before = max(settled_before_ms, newest - 1000 * SETTLED_SECONDS)
    return max((ledger + 1 for ledger, made_ms in made.items() if made_ms <= before), default=0)


def gaps(
    ledgers: Sequence[LedgerId], first: LedgerId, below: LedgerId
) -> list[tuple[LedgerId, LedgerId]]:
    """Return the ranges from an id on that hold none of some ascending ledgers. Pure.

    An adoption skips a trillion ids, so ids are not looked at one by one.
    """
    found: list[tuple[LedgerId, LedgerId]] = []
    for ledger in [*(each for each in ledgers if first <= each < below), below]:
        if first < ledger:
            found.append((first, ledger - 1))
        first = ledger + 1
    return found


async def _next_ledger(store: MetadataStore) -> LedgerId:
    try:
        record = await store.get(LEDGER_IDS)
    except NoSuchNodeError:
        return 0
    _, body = decode_record(LEDGER_IDS, "ledger-ids", record.value)
    following = body.get("next")
    if type(following) is not int:
        raise CorruptRecordError(LEDGER_IDS, f"next id {following!r}")
    return following


async def _metadata(records: LedgerRecords, ledger: LedgerId) -> LedgerMetadata | None:
    try:
        return (await records.read(ledger)).metadata
    except NoSuchLedgerError:
        return None


def may_have(metadata: LedgerMetadata, bookie: BookieId) -> bool:
    """Tell whether a bookie may have been given entries of a ledger, by its record alone. What
    records of an older incarnation lack is left to the horizon.
    """
    if any(bookie in fragment.bookies for fragment in metadata.fragments):
        return True
    is_open = metadata.state is LedgerState.OPEN
    return not metadata.is_closed and (metadata.full_quorum or not is_open)


def _is_untouched(metadata: LedgerMetadata, incarnation: int) -> bool:
    """Tell whether a bookie that `may_have` nothing of a ledger was never given any of it, nor
    fenced for it.
    """
    return metadata.state is LedgerState.OPEN and not is_older(metadata, incarnation)
