"""Writing a backup into an empty store.

A restored store has lost every change since the backup, so it begins a new incarnation: until
`quire metadata adopt`, no id is given out, no bookie serves and nothing is collected (protocol.md,
I1). The order keeps that true at every step, for a client or bookie that looks meanwhile:

    1  a marker that names the file, and in the same transaction a counter that is withheld
    2  all records but the cluster's
    3  the cluster's record, of a later incarnation, not adopted
    4  the marker goes

The number of the incarnation is drawn at random above the backup's. A backup may be put back twice,
and a bookie or client that knows the first incarnation must not take the second one for it.

Without the cluster's record no bookie starts; with a withheld counter no ledger is created. A
restore that was cut short is repeated with the same file, and goes on where it ended.

A restore that was paused may go on after another one has ended, when the store is adopted and has
newer records. So each write is one transaction with a look at the marker.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from quire.errors import (
    ConfigurationError,
    ConflictError,
    CorruptStorageError,
    NodeExistsError,
    NoSuchNodeError,
)
from quire.ledger.ids import encode_counter
from quire.metadata.archive import Archive, Saved, Summary
from quire.metastore.changes import Check, Create, Delete, Put
from quire.metastore.cluster import Cluster
from quire.metastore.layout import CLUSTER, LEDGER_IDS, RESTORING, RIGHTS
from quire.metastore.record import RecordFormat
from quire.metastore.store import MetadataStore

ROOT: Final = "/quire"
MARKER: Final = RESTORING
FORMAT: Final = RecordFormat("restoring", frozenset(Summary._fields))

INCARNATIONS_SKIPPED_MAX: Final = 1 << 32
"""Two restores of one backup draw the same incarnation once in four billion times."""


async def restore(
    store: MetadataStore,
    source: Path,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    rng: random.Random | None = None,
) -> Summary:
    """Write a backup file into an empty store. See `restore_archive`.

    Raises:
        ConfigurationError: also when the file cannot be read.
        CorruptStorageError: also when the file is not a whole backup; nothing is written then.
    """
    with Archive(source) as archive:
        return await restore_archive(store, archive, on_progress, rng)


async def restore_archive(
    store: MetadataStore,
    archive: Archive,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    rng: random.Random | None = None,
) -> Summary:
    """Write a backup into an empty store.

    Args:
        store: the store to fill. All servers of a ZooKeeper ensemble must be empty.
        archive: the backup, which was verified as a whole when it was opened.
        on_progress: told of the number of records written, and of how many there are.
        rng: draws the incarnation; by default from the system's entropy.

    Returns:
        The summary of the restored records.

    Raises:
        ConfigurationError: the store is not empty, or the restore of another file was cut short.
        CorruptStorageError: the file was written over meanwhile, or has no cluster.

    Cancellation: repeat the call with the same file.
    """
    cluster: Cluster | None = None
    ruled = False
    summary = archive.summary
    marker = await _mark(store, summary)
    for done, record in enumerate(archive.records(), 1):
        if record.path == CLUSTER:
            cluster = Cluster.decode(record.value)
        elif record.path not in (LEDGER_IDS, MARKER):
            ruled = ruled or record.path == RIGHTS
            await _write(store, record, marker)
        on_progress(done, summary.records)
    if cluster is None:
        raise CorruptStorageError(str(archive.source), f"it has no {CLUSTER}")
    skipped = (rng or random.SystemRandom()).randint(1, INCARNATIONS_SKIPPED_MAX)
    begun = replace(
        cluster,
        incarnation=summary.incarnation + skipped,
        adopted=False,
        ruled=cluster.ruled or ruled,
    )
    await _write(store, Saved(CLUSTER, begun.encode()), marker)
    try:
        await store.commit([Delete(MARKER, marker)])
    except (ConflictError, NoSuchNodeError):
        raise _ended(store) from None
    return summary


async def _mark(store: MetadataStore, summary: Summary) -> int:
    """Take the store for this file; return the marker's version.

    Raises `ConfigurationError` when the store is not empty.
    """
    mine = FORMAT.encode(summary._asdict())
    try:
        found = await store.get(MARKER)
    except NoSuchNodeError:
        names = await store.children(ROOT)
        if names:
            raise ConfigurationError(
                f"metadata store {store.uri} is not empty: it has {', '.join(names[:5])} below "
                f"{ROOT}; restore into an empty one"
            ) from None
        counter = encode_counter(summary.following, is_withheld=True)
        made = await store.commit([Create(MARKER, mine), Create(LEDGER_IDS, counter)])
        return made[MARKER]
    if found.value != mine:
        body = FORMAT.decode(MARKER, found.value).body
        raise ConfigurationError(
            f"metadata store {store.uri}: the restore of another backup (of {body['records']} "
            f"records, made at {body['made_ms']} ms) was cut short there; repeat that one, or "
            "empty the store"
        )
    return found.version


async def _write(store: MetadataStore, record: Saved, marker: int) -> None:
    """Create a record, or correct it if an earlier attempt created it or its children.

    Raises `ConfigurationError`, and writes nothing, when the marker is not at this version.
    """
    looks = Check(MARKER, marker)
    try:
        try:
            await store.commit([Create(record.path, record.value), looks])
        except NodeExistsError:
            found = await store.get(record.path)
            if found.value != record.value:
                await store.commit([Put(record.path, record.value, found.version), looks])
    except (ConflictError, NoSuchNodeError):
        raise _ended(store) from None


def _ended(store: MetadataStore) -> ConfigurationError:
    return ConfigurationError(
        f"metadata store {store.uri}: another restore ended there meanwhile, or is at work; "
        "this one wrote nothing more. Look at the store before you adopt or repeat anything"
    )
