"""Who a directory is: the cookie on its disk and the twin of it in the metadata store.

Both must be there and agree before a bookie serves. A directory without its twin belongs to another
cluster, or was given up; a twin without its directory is a bookie whose data is gone, and an empty
directory must never take its place: it would deny entries that were acknowledged.

Formatting writes the twin first: a crash in between leaves a record that no directory claims, which
harms nobody, instead of a directory that cannot be served.
"""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import Final

from quire.entry import BookieId
from quire.errors import (
    ConfigurationError,
    CorruptRecordError,
    CorruptStorageError,
    NodeExistsError,
    NoSuchNodeError,
    StoreOutcomeUnknownError,
    WrongBookieError,
)
from quire.metastore import open_store
from quire.metastore.layout import CLUSTER, cookie_path
from quire.metastore.record import decode_record, encode_record
from quire.metastore.store import MetadataStore
from quire.storage.cookie import BookieCookie, format_bookie, read_cookie
from quire.storage.disk import Disk
from quire.storage.local_disk import LocalDisk

KIND: Final = "cookie"
VERSION: Final = 1
ID_BITS: Final = 128


async def format_directory(
    directory: Path, store_uri: str, rng: random.Random | None = None
) -> BookieId:
    """Make a directory, created if missing, the disk of a new bookie and return the bookie's id.

    Raises `ConfigurationError` when it is not empty (formatted directories included) or in use, and
    the metadata store's errors.
    """
    store = await open_store(store_uri)
    try:
        disk = LocalDisk(directory, create=True)
        try:
            return await format_disk(disk, store, rng or random.SystemRandom())
        finally:
            await disk.close()
    finally:
        await store.close()


async def is_formatted(directory: Path) -> bool:
    """True when a directory is a bookie's disk.

    Raises `ConfigurationError` when it is in use, `CorruptStorageError` when its cookie is damaged.
    """
    if not _exists(directory):
        return False
    disk = LocalDisk(directory)
    try:
        return await read_cookie(disk) is not None
    finally:
        await disk.close()


def _exists(directory: Path) -> bool:
    return directory.is_dir()


async def format_disk(disk: Disk, store: MetadataStore, rng: random.Random) -> BookieId:
    """Make an empty disk that of a new bookie. Raises as `format_directory`."""
    found = await read_cookie(disk)
    if found is not None:
        raise ConfigurationError(f"the directory is formatted already, as bookie {found.bookie}")
    cookie = BookieCookie(_new_id(rng), await cluster_id(store, rng))
    path = cookie_path(cookie.bookie)
    await store.create(path, encode_record(KIND, VERSION, cookie.body()))
    try:
        await format_bookie(disk, cookie.bookie, cookie.cluster)
    except Exception:
        await store.delete(path)
        raise
    return cookie.bookie


async def identify(disk: Disk, store: MetadataStore) -> BookieCookie:
    """Return who a disk is, after comparing it with the metadata store.

    Raises `ConfigurationError` for a disk that is not formatted, `WrongBookieError` when the store
    does not know it or knows something else, `CorruptStorageError` and `CorruptRecordError` when
    one of the two cannot be believed.
    """
    cookie = await read_cookie(disk)
    if cookie is None:
        raise ConfigurationError(
            "the directory is not a bookie's: `quire bookie format` makes an empty one so"
        )
    path = cookie_path(cookie.bookie)
    try:
        twin = await store.get(path)
    except NoSuchNodeError as error:
        raise WrongBookieError(
            f"bookie {cookie.bookie}", f"the cluster at {store.uri}", "another: it has no cookie"
        ) from error
    cookie.check(f"cookie {path} at {store.uri}", _decode_twin(path, twin.value))
    try:
        here = _decode_cluster((await store.get(CLUSTER)).value)
    except NoSuchNodeError:
        here = "no cluster"
    if here != cookie.cluster:
        raise WrongBookieError(f"bookie {cookie.bookie} at {store.uri}", cookie.cluster, here)
    return cookie


def _decode_twin(path: str, data: bytes) -> BookieCookie:
    version, body = decode_record(path, KIND, data)
    if version != VERSION:
        raise CorruptRecordError(path, f"version {version} is not known here: upgrade quire")
    try:
        return BookieCookie.of(path, body)
    except CorruptStorageError as error:
        raise CorruptRecordError(path, error.reason) from error


async def cluster_id(store: MetadataStore, rng: random.Random) -> str:
    """Return the id of the cluster that lives in a metadata store, making it if there is none."""
    while True:
        try:
            found = await store.get(CLUSTER)
        except NoSuchNodeError:
            with contextlib.suppress(NodeExistsError, StoreOutcomeUnknownError):
                await store.create(
                    CLUSTER, encode_record("cluster", VERSION, {"cluster": _new_id(rng)})
                )
            continue
        return _decode_cluster(found.value)


def _decode_cluster(data: bytes) -> str:
    _, body = decode_record(CLUSTER, "cluster", data)
    cluster = body.get("cluster")
    if not isinstance(cluster, str) or not cluster:
        raise CorruptRecordError(CLUSTER, f"cluster id {cluster!r}")
    return cluster


def _new_id(rng: random.Random) -> str:
    return f"{rng.getrandbits(ID_BITS):032x}"
