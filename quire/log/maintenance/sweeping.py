"""Sweeping all logs of a cluster: ledgers that no log lists, and pages that no manifest names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from quire.entry import LedgerId
from quire.errors import NoSuchLedgerError, NoSuchLogError
from quire.ledger.catalog import LedgerCatalog
from quire.log.maintenance.orphans import find_orphans
from quire.log.maintenance.page_sweep import sweep_forsaken, sweep_pages
from quire.log.manifest.manifest import LogManifest
from quire.log.manifest.record import ManifestRecord
from quire.metastore.store import MetadataStore


async def sweep_logs(
    store: MetadataStore,
    catalog: LedgerCatalog,
    names: Callable[[], Awaitable[Sequence[str]]],
    record_of: Callable[[str], ManifestRecord],
    now_ms: int,
) -> Sequence[LedgerId]:
    """Delete what no log needs, and return the ledgers.

    Args:
        store: the metadata store.
        catalog: deletes the ledgers.
        names: lists the logs.
        record_of: returns the record of a log's manifest; one is used for all ledgers of a log.
        now_ms: the present, in Unix milliseconds.

    Raises:
        QuireError: the errors of the store, and records that cannot be believed.

    Cancellation: safe; some of it may be deleted.

    Guarantees: nothing is deleted that a log lists or will list (orphans.py, page_sweep.py).
    """
    records = {name: record_of(name) for name in await names()}

    async def find(name: str) -> LogManifest:
        if name not in records:
            records[name] = record_of(name)
        return (await records[name].read())[0]

    orphans = await find_orphans(catalog, find, now_ms)
    for ledger in orphans:
        with suppress(NoSuchLedgerError):
            await catalog.delete(ledger)
    for record in records.values():
        with suppress(NoSuchLogError):
            await sweep_pages(store, record)

    async def heads() -> set[str]:
        found = set()
        for name in await names():
            manifest, _ = await record_of(name).find()
            found.update([] if manifest is None else [manifest.log_id])
        return found

    async def labels() -> set[str]:
        return {each.custom_metadata.get("log_id", "") async for each in catalog.each()}

    await sweep_forsaken(store, heads, labels)
    return orphans
