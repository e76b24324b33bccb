"""Changing records by compare-and-set: read them, decide, write unless one changed meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from quire.errors import (
    NodeExistsError,
    NoSuchNodeError,
    StoreOutcomeUnknownError,
    VersionConflictError,
)
from quire.metastore.changes import Change, Create, Put
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

    `decide` maps the newest record to the wanted content, or to None when the record stays as
    before. It may be called several times. Raises its errors and the store's; after
    `StoreOutcomeUnknownError` the change may have been made, and the call can be repeated.
    """

    async def plan() -> list[Change]:
        record = await find_record(store, path)
        wanted = decide(record)
        return [] if wanted is None else [written(path, wanted, record)]

    await change_records(store, plan)


async def change_records(store: MetadataStore, plan: Callable[[], Awaitable[list[Change]]]) -> None:
    """Change records that are only right together, in one transaction.

    `plan` reads records and returns the wanted changes. It may be called several times.
    Raises as `change_record`.
    """
    for attempt in range(ATTEMPTS_MAX):
        changes = await plan()
        if not changes:
            return
        try:
            await store.commit(changes)
        except (NodeExistsError, NoSuchNodeError, StoreOutcomeUnknownError, VersionConflictError):
            if attempt == ATTEMPTS_MAX - 1:
                raise
        else:
            return


def written(path: str, value: bytes, record: Versioned | None) -> Change:
    """Return the change that gives a record a value; without a record it is made."""
    return Create(path, value) if record is None else Put(path, value, record.version)
