"""The identity of a directory: the cookie on its disk and its twin in the metadata store.

Both must be there and agree before a bookie serves. A directory without its twin belongs to another
cluster, or was given up; a twin without its directory is a bookie that lost its data, and an empty
directory must never take its place: it would deny entries that were acknowledged.

Formatting writes the twin first: a crash in between leaves a record that no directory claims, which
is harmless, instead of a directory that cannot be served. The main directory's cookie comes last:
with it the bookie is whole, with its parts (directories.py).
"""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Container, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from quire.checked import is_utf8
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
from quire.metastore import create_store, open_store
from quire.metastore.cluster import Cluster, read_cluster
from quire.metastore.layout import CLUSTER, cookie_path
from quire.metastore.levels import SPEAKS
from quire.metastore.record import RecordFormat
from quire.metastore.store import MetadataStore
from quire.storage.disk.local import LocalDisk
from quire.storage.disk.port import Disk
from quire.storage.disk.state_file import write_state
from quire.storage.identity.cookie import (
    COOKIE,
    FIELDS,
    IGNORED,
    LAYOUT_OF_PARTS,
    BookieCookie,
    Part,
    Role,
    check_empty,
    encode_cookie,
    read_cookie,
    renew_cookie,
    write_first_cookie,
    write_main_cookie,
)
from quire.storage.identity.directories import open_directory

FORMAT: Final = RecordFormat("cookie", FIELDS)
ID_BITS: Final = 128
ID_DIGITS: Final = ID_BITS // 4
_ID: Final = re.compile(rf"[0-9a-f]{{{ID_DIGITS}}}")

FORMAT_BYTES_MIN: Final = 160 * 2**20
"""The journal's segment and the next one, the spare and the reserve that a start on a full disk
needs (74 MiB), and more than half of the disk for entry logs: a bookie that was read-only takes
entries again when half of its disk is free.
"""


async def format_directory(
    directory: Path,
    store_uri: str,
    rng: random.Random | None = None,
    *,
    journal: Path | None = None,
    entries: Sequence[Path] = (),
) -> BookieId:
    """Make a directory, created if missing, the disk of a new bookie and return the bookie's id.

    `journal` and `entries` are directories for files on other devices, created likewise.
    A SQLite file that does not exist is created: this bookie is the first of a cluster.
    Raises `ConfigurationError` when a directory is not empty (formatted directories included)
    or in use, named twice, or inside another, and the metadata store's errors.
    """
    wanted = [(Role.JOURNAL, journal)] if journal else []
    wanted += [(Role.ENTRIES, path) for path in entries]
    _check_text([path for _, path in wanted])
    _check_distinct([directory, *(path for _, path in wanted)])
    _check_apart([directory, *(path for _, path in wanted)])
    async with AsyncExitStack() as stack:
        main, *others = [
            _created(stack, path) for path in (directory, *(path for _, path in wanted))
        ]
        parts = [
            NewPart(role, str(path.absolute()), disk)
            for (role, path), disk in zip(wanted, others, strict=True)
        ]
        await _check_new(main, parts)  # first: needs no store
        store = await create_store(store_uri)
        stack.push_async_callback(store.close)
        return await format_disk(main, store, rng or random.SystemRandom(), parts)


async def expand_directory(
    directory: Path, store_uri: str, entries: Sequence[Path], rng: random.Random | None = None
) -> BookieCookie:
    """Add empty directories, created if missing, for entry logs to a stopped bookie.

    Interrupted, it can be repeated, and nothing was lost. Raises `ConfigurationError` when the
    bookie runs, a new directory is not empty or in use, or one is named twice or is the journal's;
    as `identify` besides, and the metadata store's errors.
    """
    _check_text(entries)
    _check_distinct([directory, *entries])
    async with AsyncExitStack() as stack:
        disk = await open_directory(directory)  # first: a second process waits for nothing
        stack.push_async_callback(disk.close)
        store = await open_store(store_uri)
        stack.push_async_callback(store.close)
        cookie = await read_cookie(disk)
        parts_held = cookie.parts if cookie else ()
        _check_no_journal(parts_held, entries)
        known = [part.path for part in parts_held]
        new = [path for path in entries if str(path.absolute()) not in known]
        parts = [NewPart(Role.ENTRIES, str(path.absolute()), _created(stack, path)) for path in new]
        return await expand_disk(disk, store, rng or random.SystemRandom(), parts)


def _created(stack: AsyncExitStack, path: Path) -> LocalDisk:
    disk = LocalDisk(path, create=True)
    stack.push_async_callback(disk.close)
    return disk


def _check_text(paths: Sequence[Path]) -> None:
    """Refuse names of directories that a cookie cannot hold, which is JSON."""
    for path in paths:
        if not is_utf8(str(path.absolute())):
            raise ConfigurationError(
                f"the name of directory {str(path)!r} is not UTF-8, and the bookie's cookie "
                "holds it as text: give the directory another name"
            )


def _check_distinct(paths: Sequence[Path]) -> None:
    resolved = [path.resolve() for path in paths]
    for number, path in enumerate(resolved):
        if path in resolved[:number]:
            raise ConfigurationError(f"directory {path} is named twice: each needs its own")


def _check_apart(paths: Sequence[Path]) -> None:
    """Refuse, before making any, directories that would lie in each other."""
    resolved = [path.resolve() for path in paths]
    for path in resolved:
        for other in resolved:
            if other in path.parents:
                raise ConfigurationError(
                    f"directory {path} is inside {other}: name one beside it, or leave it out"
                )


def _check_no_journal(parts: Sequence[Part], entries: Sequence[Path]) -> None:
    journals = [Path(part.path).resolve() for part in parts if part.role is Role.JOURNAL]
    for path in entries:
        if path.resolve() in journals:
            raise ConfigurationError(
                f"directory {path} is the bookie's journal: give entry logs another directory"
            )


async def is_formatted(directory: Path) -> bool:
    """True when a directory is a bookie's disk, be it one with a damaged cookie.

    Raises `DirectoryInUseError`.
    """
    if not _exists(directory):
        return False
    disk = LocalDisk(directory)
    try:
        return await read_cookie(disk) is not None
    except CorruptStorageError:
        return True  # not to be formatted again; serving it names the remedy
    finally:
        await disk.close()


async def bookie_of(directory: Path) -> BookieId:
    """Return the id of the bookie that a formatted directory is the disk of.

    Raises `ConfigurationError` for another directory, `CorruptStorageError` when its cookie is
    damaged, `DirectoryInUseError` while the bookie serves.
    """
    cookie = None
    if _exists(directory):
        disk = LocalDisk(directory)
        try:
            cookie = await read_cookie(disk)
        finally:
            await disk.close()
    if cookie is None:
        raise ConfigurationError(
            f"{directory} is not the directory of a bookie: `quire bookie format` makes it one"
        )
    return cookie.bookie


def _exists(directory: Path) -> bool:
    return directory.is_dir()


class NewPart(NamedTuple):
    """An empty disk that is to become part of a bookie."""

    role: Role
    path: str
    disk: Disk


async def format_disk(
    disk: Disk, store: MetadataStore, rng: random.Random, parts: Sequence[NewPart] = ()
) -> BookieId:
    """Make an empty disk the disk of a new bookie, with others as its parts. Raises as
    `format_directory`.
    """
    await _check_new(disk, parts)
    named = [Part(new_id(rng), each.role, each.path) for each in parts]
    cookie = BookieCookie(new_id(rng), await cluster_id(store, rng))
    if named:
        cookie = replace(cookie, layout=LAYOUT_OF_PARTS, parts=tuple(named))
    path = cookie_path(cookie.bookie)
    await store.create(path, _encode_twin(cookie))
    try:
        for each, part in zip(parts, named, strict=True):
            await write_first_cookie(each.disk, cookie.of_part(part))
        await write_main_cookie(disk, cookie)
    except Exception:
        # A cookie that was written, though its sync failed, must not lose its twin.
        if COOKIE not in await disk.list():
            for each in parts:
                await _forget(each.disk)
            await store.delete(path)
        raise
    return cookie.bookie


async def _check_new(disk: Disk, parts: Sequence[NewPart]) -> None:
    """Raise `ConfigurationError` when a disk is not empty, or too small."""
    for name, unused in (("the directory", disk), *((new.path, new.disk) for new in parts)):
        found = await read_cookie(unused)
        if found is not None:
            raise ConfigurationError(f"{name} is formatted already, as bookie {found.bookie}")
        await check_empty(unused)
        space = await unused.space()
        if space.free_bytes < FORMAT_BYTES_MIN:
            raise ConfigurationError(
                f"{name} has {space.free_bytes // 2**20} MiB of free space, and a bookie needs "
                f"{FORMAT_BYTES_MIN // 2**20} to begin with: use a larger disk"
            )


async def _forget(disk: Disk) -> None:
    """Take back the cookie of a part of a bookie that was not made after all."""
    with contextlib.suppress(OSError):
        await disk.unlink(COOKIE)
        await disk.sync_directory()


async def expand_disk(
    disk: Disk, store: MetadataStore, rng: random.Random, parts: Sequence[NewPart]
) -> BookieCookie:
    """Add empty disks for entry logs to a bookie's; return its new cookie. Raises as
    `expand_directory`.

    The harmless cookies of the new disks are written first; then the main cookie, which decides;
    then the twin, which the next start writes if it is missing.
    """
    cookie = await identify(disk, store)
    named: list[Part] = []
    for each in parts:
        found = await read_cookie(each.disk)
        if found is None:
            named.append(Part(new_id(rng), each.role, each.path))
            await write_first_cookie(each.disk, cookie.of_part(named[-1]))
            continue
        cookie.check(f"directory {each.path}", found)
        if not found.part or any(found.part == part.id for part in cookie.parts):
            raise ConfigurationError(f"directory {each.path} is one of the bookie's already")
        await check_unused(each.disk, each.path)
        await renew_cookie(each.disk)
        named.append(Part(found.part, each.role, each.path))
    if named:
        held = cookie.parts
        if not any(part.role is Role.ENTRIES for part in held):
            held = (*held, Part(new_id(rng), Role.ENTRIES, ""))
        cookie = replace(cookie, layout=LAYOUT_OF_PARTS, parts=(*held, *named))
        await write_state(disk, COOKIE, encode_cookie(cookie))
    await settle_twin(cookie, store)
    return cookie


async def check_unused(disk: Disk, path: str) -> None:
    """Raise `ConfigurationError` when a directory with the cookie of a part that the main one does
    not name holds other files: it was a part once, and its files are out of date.
    """
    names = [name for name in await disk.list() if name not in IGNORED and name != COOKIE]
    if names:
        raise ConfigurationError(
            f"directory {path} was replaced as a part of its bookie, and holds "
            f"{', '.join(names[:5])}: name an empty directory"
        )


async def settle_twin(cookie: BookieCookie, store: MetadataStore) -> None:
    """Let the metadata store know of parts that were added when it could not be told.

    Raises as `identify`, and the metadata store's errors.
    """
    path = cookie_path(cookie.bookie)
    twin = await store.get(path)
    known = _decode_twin(path, twin.value)
    if known.parts != cookie.parts:
        wanted = replace(cookie, unknown=known.unknown)
        await store.put(path, _encode_twin(wanted), twin.version)


async def identify(
    disk: Disk, store: MetadataStore, *, replaced: Container[str] = ()
) -> BookieCookie:
    """Return the identity of a disk, after comparing it with the metadata store.

    Parts at paths that are `replaced` may be others than the store knows.

    Raises `ConfigurationError` for a disk that is not formatted, `WrongBookieError` when the store
    does not know it or knows something else, `StoreWentBackError` when the store was put back from
    a backup and not adopted yet, `CorruptStorageError` and `CorruptRecordError` when
    one of the two cannot be believed.
    """
    cookie = await read_cookie(disk)
    if cookie is None:
        raise ConfigurationError(
            "the directory is not a bookie's: `quire bookie format` makes an empty one so"
        )
    if cookie.part:
        raise ConfigurationError(
            f"the directory is a part of bookie {cookie.bookie}: name its main directory"
        )
    known = await read_twin(store, cookie.bookie)
    cookie.check(f"cookie {cookie_path(cookie.bookie)} at {store.uri}", known)
    unknown = [
        part.path or "main"
        for part in known.parts
        if part not in cookie.parts and part.path not in replaced
    ]
    if unknown:
        raise WrongBookieError(
            f"the directory of bookie {cookie.bookie}",
            f"the one known at {store.uri}",
            f"an older copy, which lacks {', '.join(unknown)}",
        )
    try:
        here = await read_cluster(store)
    except NoSuchNodeError:
        here = None
    if here is None or here.id != cookie.cluster:
        raise WrongBookieError(
            f"metadata store {store.uri}",
            f"cluster {cookie.cluster}, as bookie {cookie.bookie} does",
            f"cluster {here.id}" if here else "no cluster",
        )
    here.check_adopted(store)
    return cookie


async def read_twin(store: MetadataStore, bookie: BookieId) -> BookieCookie:
    """Return the cookie that the metadata store has of a bookie.

    Raises `WrongBookieError` when it has none, `CorruptRecordError`, and the store's errors.
    """
    path = cookie_path(bookie)
    try:
        return _decode_twin(path, (await store.get(path)).value)
    except NoSuchNodeError as error:
        raise WrongBookieError(
            f"the directory of bookie {bookie}",
            f"the cluster at {store.uri}",
            "another cluster (this one has no cookie of it)",
        ) from error


def _encode_twin(cookie: BookieCookie) -> bytes:
    return FORMAT.encode(cookie.fields(), cookie.unknown)


def _decode_twin(path: str, data: bytes) -> BookieCookie:
    _, body, unknown = FORMAT.decode(path, data)
    try:
        return replace(BookieCookie.of(path, body), unknown=unknown)
    except CorruptStorageError as error:
        raise CorruptRecordError(path, error.reason) from error


async def cluster_id(store: MetadataStore, rng: random.Random) -> str:
    """Return the id of the cluster that lives in a metadata store, making it if missing."""
    while True:
        try:
            return (await read_cluster(store)).id
        except NoSuchNodeError:
            with contextlib.suppress(NodeExistsError, StoreOutcomeUnknownError):
                await store.create(CLUSTER, Cluster(new_id(rng), level=SPEAKS.highest).encode())


def new_id(rng: random.Random) -> str:
    """Return an id that no other bookie, part or cluster has."""
    return f"{rng.getrandbits(ID_BITS):0{ID_DIGITS}x}"


def is_bookie_id(text: str) -> bool:
    """Return whether a text has the form of the ids that bookies get when they are formatted."""
    return _ID.fullmatch(text) is not None
