"""Reading the table, and changing it by compare-and-set."""

from __future__ import annotations

from collections.abc import Callable

from quire.errors import ConfigurationError
from quire.metastore.changing import change_record, find_record
from quire.metastore.cluster import read_cluster
from quire.metastore.layout import RIGHTS
from quire.metastore.store import MetadataStore, Versioned
from quire.rights.table import RIGHTS_LEVEL, RightsTable

Decide = Callable[[RightsTable | None], RightsTable]


async def read_rights(store: MetadataStore) -> RightsTable | None:
    """Return the table of a cluster; None before there is one.

    Raises `CorruptRecordError` and the store's errors.
    """
    record = await find_record(store, RIGHTS)
    return None if record is None else RightsTable.decode(record.value)


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
    wanted: RightsTable | None = None

    def edit(record: Versioned | None) -> bytes | None:
        nonlocal wanted
        current = None if record is None else RightsTable.decode(record.value)
        wanted = decide(current)
        return None if wanted == current else wanted.encode()

    await change_record(store, RIGHTS, edit)
    assert wanted is not None
    return wanted
