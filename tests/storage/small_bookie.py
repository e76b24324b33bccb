"""A bookie process on a disk that is smaller than the real one:
`python -m tests.storage.small_bookie DIRECTORY STORE BYTES`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from quire.bookie import BookieAddress
from quire.storage.disk.local import LocalDisk
from quire.storage.disk.port import DiskSpace
from quire.storage.journal.options import StorageOptions
from quire.storage.server import serve

OPTIONS = StorageOptions(
    segment_bytes=256 * 1024,
    batch_bytes_max=128 * 1024,
    write_cache_bytes=512 * 1024,
    memory_bytes_max=2 * 1024 * 1024,
    space_check_seconds=0.1,
)
"""Everything else as it is by default: collection once in ten minutes, marks of gigabytes."""


def _used(root: Path) -> int:
    total = 0
    for directory, _, names in os.walk(root):
        for name in names:
            try:
                total += (Path(directory) / name).stat().st_size
            except FileNotFoundError:
                continue  # removed in between
    return total


def main() -> None:
    directory, store, size = sys.argv[1:]

    async def space(disk: LocalDisk, directory: str = "") -> DiskSpace:
        """A small file system's word on how much room there is."""
        used = await asyncio.to_thread(_used, disk.root)
        return DiskSpace(max(0, int(size) - used), int(size))

    LocalDisk.space = space  # type: ignore[method-assign, assignment]

    def announce(ready: BookieAddress) -> None:
        sys.stdout.write(f"{ready.bookie}\n")
        sys.stdout.flush()

    asyncio.run(serve(Path(directory), store, on_ready=announce, options=OPTIONS))


if __name__ == "__main__":
    main()
