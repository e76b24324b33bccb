"""Names that a start trusts, made durable again.

A process that died of a failed sync of a directory leaves names that the next process sees,
because the page cache keeps them. The disk may not have them, and a later sync of the directory
saves only what changed after the failed one (V2). A rename is such a change: the name goes away and
returns, and the sync that follows makes it durable.
"""

from __future__ import annotations

from typing import Final

from quire.storage.disk.port import Disk

RENEWED_SUFFIX: Final = ".renewed"
"""Of a file under renewal: as good as the name without it."""


async def list_renewed(disk: Disk, directory: str, *wanted: str) -> list[str]:
    """Return the names in a directory, after those that are wanted and there were made durable.

    A name that an earlier renewal left half done is there as well. Raises OSError.
    """
    prefix = f"{directory}/" if directory else ""
    names = set(await disk.list(directory))
    found = [name for name in wanted if names & {name, name + RENEWED_SUFFIX}]
    for name in found:
        path = prefix + name
        if name in names:
            await disk.rename(path, path + RENEWED_SUFFIX)
        await disk.rename(path + RENEWED_SUFFIX, path)
    if found:
        await disk.sync_directory(directory)
    return await disk.list(directory)
