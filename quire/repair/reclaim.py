"""Give directories that lost their cookies back to their bookie.

Their entries are lost or in doubt, so a repair must follow (storage/offline/salvage.py). A mark is
left first, and no bookie starts before the repair has removed it. Each step can be repeated after
an interruption.

  - The main directory's cookie is written anew from its twin in the metadata store, if the journal
    on it names the bookie.
  - The cookie of a part is written anew as the main cookie names it, if there are files beside it
    and all are the bookie's.
  - A part with a replaced disk gets a new id. If the old disk comes back, it must not be mistaken
    for the part: it lacks the entries stored since.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Final, NamedTuple

from quire.errors import ConfigurationError, CorruptStorageError
from quire.metastore.store import MetadataStore
from quire.storage.disk.blocks import BLOCK_BYTES
from quire.storage.disk.port import Disk
from quire.storage.disk.state_file import write_state
from quire.storage.entries.entry_log import ENTRIES, ENTRIES_SUFFIX, decode_header, entries_path
from quire.storage.identity.cookie import (
    COOKIE,
    BookieCookie,
    Part,
    Role,
    encode_cookie,
    read_cookie,
    write_first_cookie,
)
from quire.storage.identity.identity import check_unused, identify, new_id, read_twin, settle_twin
from quire.storage.journal.record import decode_segment
from quire.storage.journal.segments import JOURNAL, SEGMENT_SUFFIX, numbered, segment_path
from quire.storage.offline.check import reason_of
from quire.storage.offline.salvage import mark_unfinished


async def reclaim(
    main: Disk,
    store: MetadataStore,
    rng: random.Random,
    replaced: Collection[str],
    open_disk: Callable[[str], Disk],
) -> None:
    """Restore the main directory's cookie if necessary, and let the empty disks at some paths
    take the places of the former parts there.

    `open_disk` opens the disk at a path; it is closed here. Raises `ConfigurationError` when a path
    does not belong to a part, or is not empty, as `identify` besides, and the metadata store's
    errors.
    """
    await restore_cookie(main, store)
    if replaced:
        await replace_parts(main, store, rng, replaced, open_disk)


async def restore_cookie(main: Disk, store: MetadataStore) -> None:
    """Write a lost or damaged cookie anew if the journal names its bookie; else leave it.

    A journal proves the owner of the main directory only if it is not a part itself. A journal
    that is a part has lost its own cookie.

    Raises `ConfigurationError` for such a journal, `CorruptStorageError` when the cookie is damaged
    and no file names its bookie, `WrongBookieError` and `CorruptRecordError` as `identify`, and the
    metadata store's errors.
    """
    damage: CorruptStorageError | None = None
    try:
        if await read_cookie(main) is not None:
            return
    except (CorruptStorageError, OSError) as error:
        damage = CorruptStorageError(COOKIE, reason_of(error))
    owners = await _owners(main, _SEGMENTS)
    if len(owners) == 1:
        twin = await read_twin(store, owners.pop())
        if any(part.role is Role.JOURNAL and part.path for part in twin.parts):
            raise ConfigurationError(
                f"the directory has no cookie, and its journal is a part of bookie {twin.bookie}: "
                "name its main directory"
            )
        await mark_unfinished(main)
        try:
            await write_state(main, COOKIE, encode_cookie(twin))
        except IsADirectoryError:
            if damage is None:
                raise
            raise damage from None
    elif damage is not None:
        raise damage


async def restore_parts(main: Disk, store: MetadataStore, open_disk: Callable[[str], Disk]) -> None:
    """Write the lost or damaged cookies of parts anew if every part is in its place, or has lost
    its cookie and holds such files as it should, all of this bookie. Else leave all as they are:
    opening them later reports the fault.

    `open_disk` opens the disk at a path; it is closed here. A part that was replaced long ago may
    be mistaken for its successor if it lost its cookie: the entries that it lacks are in doubt by
    then. Raises as `identify`.
    """
    cookie = await identify(main, store)
    lost: list[tuple[Part, Disk]] = []
    async with AsyncExitStack() as stack:
        for part in cookie.parts:
            if not part.path:
                continue
            try:
                disk = open_disk(part.path)
            except ConfigurationError:
                return
            stack.push_async_callback(disk.close)
            found = await _believed_cookie(disk)
            if found is None and await _holds_what_it_should(cookie, part, disk):
                lost.append((part, disk))
            elif found is None or (found.bookie, found.part) != (cookie.bookie, part.id):
                return
        if lost:
            await mark_unfinished(main)
        for part, disk in lost:
            await write_state(disk, COOKIE, encode_cookie(cookie.of_part(part)))


async def _believed_cookie(disk: Disk) -> BookieCookie | None:
    try:
        return await read_cookie(disk)
    except (CorruptStorageError, OSError) as error:
        reason_of(error)  # raises errors other than damage
        return None


async def _holds_what_it_should(cookie: BookieCookie, part: Part, disk: Disk) -> bool:
    segments, logs = await _owners(disk, _SEGMENTS), await _owners(disk, _ENTRY_LOGS)
    mine, others = (segments, logs) if part.role is Role.JOURNAL else (logs, segments)
    return mine == {cookie.bookie} and not others


class _ReclaimKind(NamedTuple):
    """Files that name their bookie."""

    directory: str
    suffix: str
    path: Callable[[int], str]
    owner: Callable[[str, bytes], str]
    """Reads it from the first block; raises `CorruptStorageError`."""


_SEGMENTS: Final = _ReclaimKind(
    JOURNAL, SEGMENT_SUFFIX, segment_path, lambda path, block: decode_segment(path, block).bookie
)
_ENTRY_LOGS: Final = _ReclaimKind(
    ENTRIES, ENTRIES_SUFFIX, entries_path, lambda path, block: decode_header(path, block)[1]
)


async def _owners(disk: Disk, kind: _ReclaimKind) -> set[str]:
    """Return the bookies that the files of a kind on a disk name."""
    owners: set[str] = set()
    if kind.directory not in await disk.list():
        return owners
    for number in numbered(await disk.list(kind.directory), kind.suffix):
        path = kind.path(number)
        try:
            owners.add(kind.owner(path, await _first_block(disk, path)))
        except (CorruptStorageError, OSError) as error:
            reason_of(error)  # damage says nothing; other errors are raised
    return owners


async def _first_block(disk: Disk, path: str) -> bytes:
    file = await disk.open(path)
    try:
        return await file.read(0, BLOCK_BYTES)
    finally:
        await file.close()


async def replace_parts(
    main: Disk,
    store: MetadataStore,
    rng: random.Random,
    replaced: Collection[str],
    open_disk: Callable[[str], Disk],
) -> None:
    """Let empty disks take the places of parts; a disk with its part's cookie is left alone.

    Raises as `reclaim`.

    The harmless cookies of the new disks are written first; then the main cookie, which decides;
    then the twin.
    """
    cookie = await identify(main, store, replaced=replaced)
    paths = [part.path for part in cookie.parts if part.path]
    for path in replaced:
        if path not in paths:
            known = ", ".join(paths) or "the main one only"
            raise ConfigurationError(
                f"{path} is not one of the bookie's directories: it has {known}"
            )
    parts: list[Part] = []
    for part in cookie.parts:
        if part.path not in replaced:
            parts.append(part)
            continue
        disk = open_disk(part.path)
        try:
            parts.append(await _replaced(cookie, part, disk, rng))
        finally:
            await disk.close()
    if parts != list(cookie.parts):
        await mark_unfinished(main)
        cookie = replace(cookie, parts=tuple(parts))
        await write_state(main, COOKIE, encode_cookie(cookie))
    await settle_twin(cookie, store)


async def _replaced(cookie: BookieCookie, part: Part, disk: Disk, rng: random.Random) -> Part:
    """Return a part as it is to be, its cookie on its disk."""
    try:
        found = await read_cookie(disk)
    except CorruptStorageError:  # and nothing beside it: whosever it was, nothing is lost
        await check_unused(disk, part.path)
        await disk.unlink(COOKIE)
        found = None
    if found is None:
        fresh = replace(part, id=new_id(rng))
        await write_first_cookie(disk, cookie.of_part(fresh))
        return fresh
    cookie.check(f"directory {part.path}", found)
    if not found.part or any(found.part == other.id for other in cookie.parts if other is not part):
        raise ConfigurationError(f"directory {part.path} holds another of the bookie's directories")
    if found.part != part.id:
        await check_unused(disk, part.path)
    return replace(part, id=found.part)
