"""Changing one record by compare-and-set: read it, decide, write it unless it changed meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quire.errors import (
    NodeExistsError,
    NoSuchNodeError,
    StoreOutcomeUnknownError,
    VersionConflictError,
)
from quire.metastore.store import MetadataStore, Versioned

ATTEMPTS_MAX: Final = 16
"""For records that some operators change, now and then."""


async def find_record(store: MetadataStore, path: str) -> Versioned | None:
    """Return a record, None where there is none. Raises the store's other errors."""
    try:
        return await store.get(path)
    except NoSuchNodeError:
        return None


async def change_record(
    store: MetadataStore, path: str, decide: Callable[[Versioned | None], bytes | None]
) -> None:
    """Change a record, or make it.

    `decide` maps the newest record to the wanted content, or to None when the record stays as it
    is. It may be called several times. Raises its errors and the store's; after
    `StoreOutcomeUnknownError` the change may have been made, and the call can be repeated.
    """
    for attempt in range(ATTEMPTS_MAX):
        record = await find_record(store, path)
        wanted = decide(record)
        if wanted is None:
            return
        try:
            if record is None:
                await store.create(path, wanted)
            else:
                await store.put(path, wanted, record.version)
        except (NodeExistsError, NoSuchNodeError, StoreOutcomeUnknownError, VersionConflictError):
            if attempt == ATTEMPTS_MAX - 1:
                raise
        else:
            return
