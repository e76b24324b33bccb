"""`quire bookie repair`: a directory that its bookie refuses is made one that can be served.

The directory is locked meanwhile, so no bookie gives another answer under this identity; that is
why what metadata says now covers all it ever said.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from quire.entry import BookieId
from quire.metastore import open_store
from quire.metastore.store import MetadataStore
from quire.repair.census import count
from quire.storage.check import Damage, check_disk
from quire.storage.directories import open_directory
from quire.storage.disk import Disk
from quire.storage.identity import identify
from quire.storage.options import StorageOptions
from quire.storage.salvage import salvage


@dataclass(frozen=True, slots=True)
class Repaired:
    """What was done for a bookie, or would be."""

    bookie: BookieId
    damage: Sequence[Damage]
    aside: Sequence[str]
    """New names of the files that cannot be believed."""
    ledgers: int
    """How many are in limbo by name."""


async def repair_directory(
    directory: Path,
    store_uri: str,
    *,
    rng: random.Random | None = None,
    options: StorageOptions | None = None,
) -> Repaired:
    """Put everything a stopped bookie has, or may have had, into limbo, and let it be served.

    The caller accepts that what cannot be read any more is lost here. A repair that was interrupted
    is begun again by calling again; no bookie starts on the directory before.

    Raises `ConfigurationError` when the directory is in use or not a bookie's, `WrongBookieError`
    when it belongs to another cluster, `CorruptStorageError` when its cookie cannot be believed,
    OSError, and the metadata store's errors, after which nothing was changed.
    """
    async with _opened(directory, store_uri) as (disk, store):
        return await repair_disk(disk, store, rng or random.SystemRandom(), options=options)


async def repair_disk(
    disk: Disk, store: MetadataStore, rng: random.Random, *, options: StorageOptions | None = None
) -> Repaired:
    """Do as `repair_directory` with a disk that nobody serves."""
    bookie = (await identify(disk, store)).bookie
    doubts, horizon = await count(store, bookie)
    found = await salvage(disk, bookie, doubts, horizon, rng=rng, options=options)
    return Repaired(bookie, found.damage, found.aside, found.ledgers)


async def examine_directory(directory: Path, store_uri: str) -> Repaired:
    """Say what `repair_directory` would find, and change nothing. Raises as it does."""
    async with _opened(directory, store_uri) as (disk, store):
        bookie = (await identify(disk, store)).bookie
        doubts, _ = await count(store, bookie)
        findings = await check_disk(disk)
        ledgers = findings.ledgers.union(doubt.ledger for doubt in doubts)
        return Repaired(bookie, findings.damage, (), len(ledgers))


@contextlib.asynccontextmanager
async def _opened(directory: Path, store_uri: str) -> AsyncIterator[tuple[Disk, MetadataStore]]:
    store = await open_store(store_uri)
    try:
        disk = await open_directory(directory)
        try:
            yield disk, store
        finally:
            await disk.close()
    finally:
        await store.close()
