"""Reading the table, and changing it by compare-and-set.

The cluster's record notes that there was a table, in the same transaction as the first one. So a
table that is missing later was lost, and each call is denied: no program mistakes lost rules for a
cluster without rules.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from quire.errors import LevelNeededError, MissingRightsError, NoSuchNodeError
from quire.metastore.changes import Change, Put
from quire.metastore.changing import change_records, find_record, written
from quire.metastore.cluster import Cluster, read_cluster
from quire.metastore.layout import CLUSTER, RIGHTS
from quire.metastore.levels import check_level
from quire.metastore.store import MetadataStore, Versioned
from quire.rights.table import RIGHTS_LEVEL, RightsTable

Decide = Callable[[RightsTable | None], RightsTable]


async def find_rights(store: MetadataStore) -> Versioned | None:
    """Return the record of the table; None before there was one.

    Raises `MissingRightsError` for a table that was lost, `CorruptRecordError` for a damaged record
    of the cluster, and the store's errors.
    """
    record = await find_record(store, RIGHTS)
    if record is None and await _was_ruled(store):
        record = await find_record(store, RIGHTS)  # the first table may be this young
        if record is None:
            raise MissingRightsError(RIGHTS)
    return record


async def _was_ruled(store: MetadataStore) -> bool:
    try:
        return (await read_cluster(store)).ruled
    except NoSuchNodeError:  # a store of ledgers alone
        return False


async def read_rights(store: MetadataStore) -> RightsTable | None:
    """Return the table of a cluster; None before there was one.

    Raises `CorruptRecordError`, as `MissingRightsError` for a table that was lost, and the store's
    errors.
    """
    record = await find_rights(store)
    return None if record is None else RightsTable.decode(record.value)


async def read_rights_left(store: MetadataStore) -> RightsTable | None:
    """Return the table of a cluster as `replace_rights` sees it: None also for a lost table."""
    record = await find_record(store, RIGHTS)
    return None if record is None else RightsTable.decode(record.value)


async def change_rights(store: MetadataStore, decide: Decide) -> RightsTable:
    """Change the table, and return it.

    `decide` maps the newest table to the wanted one, and may be called several times; its errors
    are raised. A damaged table is never replaced, and a lost one is not begun anew rule by rule:
    either would drop all denials. After `StoreOutcomeUnknownError` the change may have been made,
    and the call can be repeated.

    Raises:
        ConfigurationError: older bookies may be in the cluster, which would not obey a table.
        MissingRightsError: the table was lost; `replace_rights` puts a whole one there.
        CorruptRecordError: the table cannot be read.
        QuireError: the store's errors.
    """
    return await _change(store, decide, find_rights)


async def replace_rights(store: MetadataStore, decide: Decide) -> RightsTable:
    """Replace the whole table, and return it.

    As `change_rights`, and `decide` is also asked, with None, if the table was lost.
    """
    return await _change(store, decide, lambda store: find_record(store, RIGHTS))


async def _change(
    store: MetadataStore,
    decide: Decide,
    find: Callable[[MetadataStore], Awaitable[Versioned | None]],
) -> RightsTable:
    wanted: RightsTable | None = None

    async def plan() -> list[Change]:
        nonlocal wanted
        marking = await _marking(store)
        record = await find(store)
        current = None if record is None else RightsTable.decode(record.value)
        wanted = decide(current)
        return [
            *([] if wanted == current else [written(RIGHTS, wanted.encode(), record)]),
            *marking,
        ]

    await change_records(store, plan)
    assert wanted is not None
    return wanted


async def _marking(store: MetadataStore) -> list[Change]:
    """Return the change that notes in the cluster's record that there is a table, if it is needed.

    Raises `LevelNeededError` below the level of rights.
    """
    record = await store.get(CLUSTER)
    cluster = Cluster.decode(record.value)
    check_level(max(cluster.level, cluster.raising))
    if cluster.level < RIGHTS_LEVEL:
        what = "a table of rights, which older bookies do not obey,"
        raise LevelNeededError(what, RIGHTS_LEVEL, cluster.level)
    if cluster.ruled:
        return []
    return [Put(CLUSTER, replace(cluster, ruled=True).encode(), record.version)]
