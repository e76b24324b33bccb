"""`quire bookie repair`: make a directory that its bookie refuses fit to be served.

The directory is locked meanwhile, so no bookie gives another answer under this identity. Therefore
the metadata of now covers all earlier metadata.
"""

from __future__ import annotations

import contextlib
import errno
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from quire.entry import BookieId
from quire.errors import ConfigurationError, CorruptStorageError
from quire.metastore import open_store
from quire.metastore.store import MetadataStore
from quire.repair.census import SETTLED_SECONDS, count
from quire.repair.reclaim import reclaim, restore_parts
from quire.storage.disk.local import LocalDisk
from quire.storage.disk.port import Disk
from quire.storage.entries.damage import Damage
from quire.storage.entries.reserve import Reserve
from quire.storage.identity.directories import (
    open_directory,
    open_local,
    open_main,
    with_local_parts,
)
from quire.storage.identity.identity import identify
from quire.storage.journal.options import StorageOptions
from quire.storage.journal.segments import JOURNAL, SEGMENT_SUFFIX, numbered
from quire.storage.offline.salvage import Salvage, examine, salvage


@dataclass(frozen=True, slots=True)
class Repaired:
    """The result of a repair, or of its dry run."""

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
    replaced: Sequence[Path] = (),
    rng: random.Random | None = None,
    options: StorageOptions | None = None,
) -> Repaired:
    """Put everything a stopped bookie has, or may have had, into limbo, and let it be served.

    The caller accepts the loss of all unreadable data, and of all data in the directories
    `replaced`: parts of the bookie that are empty now, or missing. A lost cookie is written anew
    from the metadata store if the journal beside it names its bookie. Calling again begins an
    interrupted repair again; no bookie starts on the directory before.

    On a full disk the repair writes into the space that the bookie keeps for its next start.

    Raises `DirectoryInUseError`, `SharedFilesError` when its journal has hard links elsewhere,
    `ConfigurationError` when a directory is not the bookie's, or its
    disk is full and even that space is too small (the error names how much to free),
    `WrongBookieError` when it belongs to another cluster, `CorruptStorageError` when its cookie is
    damaged and no file names its bookie, OSError, and the metadata store's errors.
    """
    rng = rng or random.SystemRandom()
    async with AsyncExitStack() as stack:
        main = open_main(directory)  # first: a second process waits for nothing
        stack.push_async_callback(main.close)
        store = await open_store(store_uri)
        stack.push_async_callback(store.close)
        paths = [str(path.absolute()) for path in replaced]
        await reclaim(main, store, rng, paths, lambda path: LocalDisk(path, create=True))
        await restore_parts(main, store, open_local)
        try:
            disk = await with_local_parts(main)
        except CorruptStorageError as error:
            remedy = (
                "the files beside it do not tell whose it was: empty that directory, and name it"
            )
            raise CorruptStorageError(
                error.path, f"{error.reason}; {remedy} with --replaced"
            ) from error
        stack.push_async_callback(disk.close)
        return await repair_disk(disk, store, rng, options=options)


async def repair_disk(
    disk: Disk, store: MetadataStore, rng: random.Random, *, options: StorageOptions | None = None
) -> Repaired:
    """Do as `repair_directory` with a disk that no process serves."""
    bookie = (await identify(disk, store)).bookie
    doubts, horizon = await count(store, bookie, _settled_before_ms())
    options = options or StorageOptions()
    salvaging = partial(salvage, disk, bookie, doubts, horizon, rng=rng, options=options)
    try:
        found = await _in_the_reserve(disk, options, salvaging)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise await _full(disk, bookie, options) from error
    return Repaired(bookie, found.damage, found.aside, found.ledgers)


async def _in_the_reserve(
    disk: Disk, options: StorageOptions, salvaging: Callable[[], Awaitable[Salvage]]
) -> Salvage:
    """Salvage; on a full disk once more, in the space that the bookie keeps for its next start.

    The bookie takes no new entries before it has made that space again.
    """
    try:
        return await salvaging()
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    reserve = Reserve(disk, options)
    with contextlib.suppress(FileNotFoundError):  # a directory of the bookie is lost
        await reserve.load()
    await reserve.give_up()
    return await salvaging()


async def _full(disk: Disk, bookie: BookieId, options: StorageOptions) -> ConfigurationError:
    """Return the error of a repair that found no space."""
    segments = numbered(await disk.list(JOURNAL), SEGMENT_SUFFIX)
    wanted = (len(segments) + 1) * options.segment_bytes + options.reserve_bytes
    return ConfigurationError(
        f"the disk of bookie {bookie} is full, and its repair writes up to {wanted} bytes: what "
        f"its {len(segments)} journal segments hold, and a segment to go on with; free that much "
        "(files of other programs, or `*.damaged` files of earlier repairs that are saved "
        "elsewhere), and repeat the command. Nothing is lost, and the bookie does not start before"
    )


def _settled_before_ms() -> float:
    return (time.time() - SETTLED_SECONDS) * 1000


async def examine_directory(
    directory: Path,
    store_uri: str,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Repaired:
    """Say what `repair_directory` would do, and change nothing. Damage inside entry logs is told
    as well, which a repair leaves to be found by readers.

    Raises as it does, and `CorruptStorageError` for a damaged cookie in any case. `on_progress` is
    told how many entry logs are done, and of how many.
    """
    async with _opened(directory, store_uri) as (disk, store):
        bookie = (await identify(disk, store)).bookie
        doubts, horizon = await count(store, bookie, _settled_before_ms())
        found = await examine(disk, bookie, doubts, horizon, on_progress)
        return Repaired(bookie, found.damage, found.aside, found.ledgers)


@contextlib.asynccontextmanager
async def _opened(directory: Path, store_uri: str) -> AsyncIterator[tuple[Disk, MetadataStore]]:
    try:
        disk = await open_directory(directory, read_only=True)
    except CorruptStorageError as error:
        cookie = directory / error.path
        remedy = f"a repair makes {cookie} anew if the files beside it are its bookie's"
        raise CorruptStorageError(error.path, f"{error.reason}; {remedy}") from error
    try:
        store = await open_store(store_uri)
        try:
            yield disk, store
        finally:
            await store.close()
    finally:
        await disk.close()
