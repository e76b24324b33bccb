"""Names that a start trusts, made durable again.

A process that died of a failed sync of a directory leaves names that the next process sees,
because the page cache keeps them. The disk may not have them, and a later sync of the directory
saves only what changed after the failed one (V2). A rename is such a change: the name goes away and
returns, and the sync that follows makes it durable.
"""

from __future__ import annotations

import errno
from typing import Final

from quire.storage.disk.port import Disk
from quire.storage.disk.state_file import STATE_BYTES_MAX, read_state, write_state

RENEWED_SUFFIX: Final = ".renewed"
"""Of a file under renewal: as good as the name without it."""


async def list_renewed(disk: Disk, directory: str, *wanted: str) -> list[str]:
    """Return the names in a directory, after those that are wanted and there were made durable.

    The wanted files only take space: their content means nothing. A name that an earlier renewal
    left half done is there as well. On a full disk, which may lack the space for another name, a
    name stays as it is. Raises OSError.
    """
    prefix = f"{directory}/" if directory else ""
    names = set(await disk.list(directory))
    found = [name for name in wanted if names & {name, name + RENEWED_SUFFIX}]
    for name in found:
        await _renew(disk, prefix + name, name in names)
    if found:
        await disk.sync_directory(directory)
    return await disk.list(directory)


async def _renew(disk: Disk, path: str, is_whole: bool) -> None:
    """Rename a file away and back. Without space for the name that it returns to it is removed: a
    start looks for that name only, and needs the space. Raises OSError.
    """
    renewed = path + RENEWED_SUFFIX
    if is_whole and not await is_renamed(disk, path, renewed):
        return
    if not await is_renamed(disk, renewed, path):
        await disk.unlink(renewed)


async def is_renamed(disk: Disk, old: str, new: str) -> bool:
    """Rename a file; return whether there was space for its name. Raises OSError."""
    try:
        await disk.rename(old, new)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False
    return True


async def renew_state(disk: Disk, path: str, *, bytes_max: int = STATE_BYTES_MAX) -> None:
    """Make the name of a state file durable, if the file is there.

    It is written anew, so that the name is there at any moment. Raises OSError, and as
    `read_state`; after ENOSPC all is as it was, and the call may be repeated.
    """
    data = await read_state(disk, path, bytes_max=bytes_max)
    if data is not None:
        await write_state(disk, path, data)
