"""The directories of a bookie, opened as the one disk they are together.

The main directory's cookie names the others, the *parts*: an absolute path, a purpose, and an
id that stands in the part's own cookie too. A part that is not mounted, was swapped or wiped is
found before anything is read, and the bookie is refused: entries it acknowledged may be there.

A directory that is to be written must not share journal segments with another one by hard links.
The lock does not see that: the other directory is locked for itself.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from quire.errors import (
    ConfigurationError,
    CorruptStorageError,
    SharedFilesError,
    WrongBookieError,
)
from quire.metastore.heartbeat import Place
from quire.private_files import complaint
from quire.storage.disk.local import LocalDisk
from quire.storage.disk.port import Disk
from quire.storage.identity.cookie import BookieCookie, Part, Role, read_cookie, renew_cookie
from quire.storage.identity.spread_disk import SpreadDisk
from quire.storage.journal.segments import JOURNAL

_log = logging.getLogger(__name__)


async def open_directory(directory: Path, *, read_only: bool = False) -> Disk:
    """Open a bookie's main directory and all its parts; an unformatted directory opens too.

    Args:
        directory: the main directory.
        read_only: only look, which a read-only mount allows as well.

    Raises:
        DirectoryInUseError: another process has one of them open.
        SharedFilesError: another directory has journal segments of one of them (unless
            `read_only`).
        ConfigurationError: one of them is missing, or cannot be written.
        WrongBookieError: the cookie names another part for that place.
        CorruptStorageError: a cookie is damaged.
    """
    if not read_only:
        return await with_parts(open_main(directory), open_local)
    main = LocalDisk(directory, read_only=True)
    return await with_parts(main, _open_to_look)


async def places(disk: Disk) -> list[Place]:
    """Return the directories of a disk that `open_directory` opened, and their space. Raises
    OSError.
    """
    disks = disk.purposes if isinstance(disk, SpreadDisk) else [(disk, "main+journal+entries")]
    spaces = await asyncio.gather(*(each.space() for each, _ in disks))
    return [
        Place(str(getattr(each, "root", "")), holds, space.free_bytes, space.total_bytes)
        for (each, holds), space in zip(disks, spaces, strict=True)
    ]


async def open_to_serve(directory: Path) -> Disk:
    """Open a bookie's directory as `open_directory`. The names of its parts' cookies are durable
    afterwards. A directory that other users can enter is served with a warning that
    names the remedy. Raises OSError too.
    """
    disk = await with_parts(open_main(directory), open_local, renew_cookie)
    for each in await places(disk):
        if (found := complaint(Path(each.path))) is not None:
            _log.warning("%s", found)
    return disk


def open_main(directory: Path) -> LocalDisk:
    """Open a main directory to write in it. Raises `SharedFilesError`, and as `LocalDisk`."""
    check_unshared(directory)
    return LocalDisk(directory)


def check_unshared(directory: Path) -> None:
    """Raise `SharedFilesError` if a file of the journal in a directory has a second name.

    Entry logs may have one: they are written once, and never in place.
    """
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(directory / JOURNAL) as found:
        for name, links in sorted((each.name, each.stat().st_nlink) for each in found):
            if links > 1:
                raise SharedFilesError(directory, f"{JOURNAL}/{name}", links)


async def with_local_parts(main: Disk) -> Disk:
    """Return a main directory together with its parts. Raises as `open_directory`; all is closed
    then.
    """
    return await with_parts(main, open_local)


def open_local(path: str) -> LocalDisk:
    """Open the directory of a part. Raises `ConfigurationError` when it is missing, and as
    `open_main`.
    """
    _check_mounted(path)
    return open_main(Path(path))


def _open_to_look(path: str) -> LocalDisk:
    _check_mounted(path)
    return LocalDisk(Path(path), read_only=True)


def _check_mounted(path: str) -> None:
    if not Path(path).is_dir():
        raise ConfigurationError("it is missing: is it mounted?")


async def _leave(_: Disk) -> None:
    """Leave a part as it is."""


async def with_parts(
    main: Disk,
    open_disk: Callable[[str], Disk],
    settle: Callable[[Disk], Awaitable[None]] = _leave,
) -> Disk:
    """Return a main disk together with its parts, each of which `settle` was called for. Raises as
    `open_directory`; all is closed then.
    """
    opened = [main]
    try:
        cookie = await read_cookie(main)
        if cookie is None or not cookie.parts:
            return main
        disks = []
        for part in cookie.parts:
            disks.append(await _open_part(cookie, part, main, open_disk))
            opened.append(disks[-1])
        for disk in disks:
            if disk is not main:
                await settle(disk)
        return _spread(main, cookie.parts, disks)
    except BaseException:
        for disk in opened:
            await disk.close()
        raise


async def _open_part(
    cookie: BookieCookie, part: Part, main: Disk, open_disk: Callable[[str], Disk]
) -> Disk:
    if not part.path:
        return main
    what = f"directory {part.path} ({part.role} of bookie {cookie.bookie})"
    try:
        disk = open_disk(part.path)
    except ConfigurationError as error:
        raise ConfigurationError(f"{what} cannot be used: {error}") from error
    try:
        try:
            found = await read_cookie(disk)
        except CorruptStorageError as error:
            raise CorruptStorageError(f"{part.path}/{error.path}", error.reason) from error
        if found is None:
            unowned = "no bookie (it has no cookie: is the right disk mounted there?)"
            raise WrongBookieError(what, f"bookie {cookie.bookie}", unowned)
        cookie.check(what, found)
        if found.part != part.id:
            raise WrongBookieError(what, f"part {part.id}", f"part {found.part or 'main'}")
    except BaseException:  # cancellation too: its lock would outlive the start
        await disk.close()
        raise
    return disk


def _spread(main: Disk, parts: Sequence[Part], disks: Sequence[Disk]) -> Disk:
    def of(role: Role) -> list[Disk]:
        return [disk for part, disk in zip(parts, disks, strict=True) if part.role is role]

    return SpreadDisk(main, (of(Role.JOURNAL) or [main])[0], of(Role.ENTRIES) or [main])
