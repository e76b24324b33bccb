"""Changing a ledger's metadata by compare-and-set.

`change_metadata` is the loop of all clients except the writer: read, let a pure function decide,
put at the version read, and begin again when the put met another version or its outcome is not
known. The decision always sees the newest value, so after a lost answer a change that succeeded
shows as a value that needs no change any more.

Not here: the writer's changes, which depend on its earlier ones (`ledger_record`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from quire.entry import LedgerId
from quire.errors import (
    LedgerRetiredError,
    StoreOutcomeUnknownError,
    StoreWentBackError,
    VersionConflictError,
)
from quire.ledger.metadata import LedgerMetadata
from quire.ledger.records import LedgerRecords, VersionedMetadata

CHANGE_ATTEMPTS_MAX: Final = 16
"""A ledger has a handful of parties, and each changes it a handful of times in its life."""


@asynccontextmanager
async def judged_by_metadata(records: LedgerRecords) -> AsyncIterator[None]:
    """Let metadata decide the meaning of a retired ledger (docs/protocol.md, B11).

    Raises, instead of `LedgerRetiredError`, `NoSuchLedgerError` if the ledger's record is gone and
    `StoreWentBackError` if it is there: a bookie retires an id only after the record was provably
    gone. Raises the store's errors when the record cannot be read.
    """
    try:
        yield
    except LedgerRetiredError as error:
        await records.read(error.ledger)
        evidence = f"ledger {error.ledger} has a record, and a bookie has dropped it as deleted"
        raise StoreWentBackError(f"metadata store {records.uri}", evidence) from error


async def change_metadata(
    records: LedgerRecords,
    ledger: LedgerId,
    decide: Callable[[LedgerMetadata], LedgerMetadata | None],
) -> VersionedMetadata:
    """Change a ledger's metadata and return the value in the store afterwards.

    `decide` maps the newest value to the wanted value, or to None when the newest value stays. It
    may be called several times. Raises the errors of `decide`, `NoSuchLedgerError`, and the store's
    errors; after `StoreOutcomeUnknownError` the change may have been made.
    """
    for attempt in range(CHANGE_ATTEMPTS_MAX):
        current = await records.read(ledger)
        wanted = decide(current.metadata)
        if wanted is None:
            return current
        try:
            return await records.change(wanted, current.version)
        except (VersionConflictError, StoreOutcomeUnknownError):
            if attempt == CHANGE_ATTEMPTS_MAX - 1:
                raise
    raise AssertionError("the last attempt returns or raises")
