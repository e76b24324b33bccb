"""Reading the table, and changing it by compare-and-set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quire.errors import (
    ConfigurationError,
    NodeExistsError,
    NoSuchNodeError,
    StoreOutcomeUnknownError,
    VersionConflictError,
)
from quire.metastore.cluster import read_cluster
from quire.metastore.layout import RIGHTS
from quire.metastore.store import MetadataStore, Versioned
from quire.rights.table import RIGHTS_LEVEL, RightsTable

ATTEMPTS_MAX: Final = 16
"""Some administrators change it, now and then."""

Decide = Callable[[RightsTable | None], RightsTable]


async def read_rights(store: MetadataStore) -> RightsTable | None:
    """Return the table of a cluster; None before there is one.

    Raises `CorruptRecordError` and the store's errors.
    """
    record = await _read(store)
    return None if record is None else RightsTable.decode(record.value)


async def _read(store: MetadataStore) -> Versioned | None:
    try:
        return await store.get(RIGHTS)
    except NoSuchNodeError:
        return None


async def change_rights(store: MetadataStore, decide: Decide) -> RightsTable:
    """Change the table, and return it.

    `decide` maps the newest table to the wanted one, and may be called several times; its errors
    are raised. A damaged table is never replaced: it would be a way to drop all denials. After
    `StoreOutcomeUnknownError` the change may have been made, and the call can be repeated.

    Raises:
        ConfigurationError: older bookies may be in the cluster, which would not obey a table.
        CorruptRecordError: the table cannot be read.
        QuireError: the store's errors.
    """
    level = (await read_cluster(store)).level
    if level < RIGHTS_LEVEL:
        raise ConfigurationError(
            f"rights need feature level {RIGHTS_LEVEL}, because older bookies do not obey them, "
            f"and the cluster is at {level}: upgrade all programs, then run `quire cluster "
            "upgrade --finish`"
        )
    for attempt in range(ATTEMPTS_MAX):
        record = await _read(store)
        current = None if record is None else RightsTable.decode(record.value)
        wanted = decide(current)
        if wanted == current:
            return wanted
        try:
            if record is None:
                await store.create(RIGHTS, wanted.encode())
            else:
                await store.put(RIGHTS, wanted.encode(), record.version)
        except (NodeExistsError, NoSuchNodeError, VersionConflictError, StoreOutcomeUnknownError):
            if attempt == ATTEMPTS_MAX - 1:
                raise
        else:
            return wanted
    raise AssertionError("the last attempt returns or raises")
