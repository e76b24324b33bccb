"""A ledger's metadata as it is in the store: read it, and change it by compare-and-set.

`change_metadata` is the loop of all clients except the writer: read, let a pure function decide,
put at the version read, and begin again when the put met another version or its outcome is not
known. The decision always sees the newest value, so after a lost answer a change that succeeded
shows as a value that needs no change any more.

Not here: the writer's changes, which depend on its earlier ones (`ledger_record`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from quire.entry import LedgerId
from quire.errors import (
    LedgerRetiredError,
    NoSuchLedgerError,
    NoSuchNodeError,
    StoreOutcomeUnknownError,
    StoreWentBackError,
    VersionConflictError,
)
from quire.ledger.metadata import LedgerMetadata
from quire.metastore.layout import ledger_path
from quire.metastore.store import MetadataStore

CHANGE_ATTEMPTS_MAX: Final = 16
"""A ledger has a handful of parties, and each changes it a handful of times in its life."""


@dataclass(frozen=True, slots=True)
class VersionedMetadata:
    """Metadata and the version to compare-and-set against."""

    metadata: LedgerMetadata
    version: int


async def read_metadata(store: MetadataStore, ledger: LedgerId) -> VersionedMetadata:
    """Return a ledger's metadata. Raises `NoSuchLedgerError` and the store's errors."""
    path = ledger_path(ledger)
    try:
        found = await store.get(path)
    except NoSuchNodeError:
        raise NoSuchLedgerError(ledger) from None
    return VersionedMetadata(LedgerMetadata.decode(path, found.value), found.version)


@asynccontextmanager
async def judged_by_metadata(store: MetadataStore) -> AsyncIterator[None]:
    """Let metadata decide the meaning of a retired ledger (docs/protocol.md, B11).

    Raises, instead of `LedgerRetiredError`, `NoSuchLedgerError` if the ledger's record is gone and
    `StoreWentBackError` if it is there: a bookie retires an id only after the record was provably
    gone. Raises the store's errors when the record cannot be read.
    """
    try:
        yield
    except LedgerRetiredError as error:
        await read_metadata(store, error.ledger)
        evidence = f"ledger {error.ledger} has a record, and a bookie has dropped it as deleted"
        raise StoreWentBackError(f"metadata store {store.uri}", evidence) from error


async def change_metadata(
    store: MetadataStore,
    ledger: LedgerId,
    decide: Callable[[LedgerMetadata], LedgerMetadata | None],
) -> VersionedMetadata:
    """Change a ledger's metadata and return the value in the store afterwards.

    `decide` maps the newest value to the wanted value, or to None when the newest value stays. It
    may be called several times. Raises the errors of `decide`, `NoSuchLedgerError`, and the store's
    errors; after `StoreOutcomeUnknownError` the change may have been made.
    """
    path = ledger_path(ledger)
    for attempt in range(CHANGE_ATTEMPTS_MAX):
        current = await read_metadata(store, ledger)
        wanted = decide(current.metadata)
        if wanted is None:
            return current
        try:
            return VersionedMetadata(
                wanted, await store.put(path, wanted.encode(), current.version)
            )
        except NoSuchNodeError:
            raise NoSuchLedgerError(ledger) from None
        except (VersionConflictError, StoreOutcomeUnknownError):
            if attempt == CHANGE_ATTEMPTS_MAX - 1:
                raise
    raise AssertionError("the last attempt returns or raises")
