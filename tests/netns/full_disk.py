"""Fill a real file system with a bookie, and start the bookie there: `... full_disk DIRECTORY`.

The directory is the root of a file system of the smallest size that `format` takes. The bookie has
the options of production. It is filled by a recovery, which the low mark does not stop; another
file takes what is left to the last block.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
import sys
from pathlib import Path

from quire.errors import LedgerFencedError, QuireError
from quire.metastore.memory import MemoryStore
from quire.storage.disk.local import LocalDisk
from quire.storage.identity.identity import format_disk, identify
from quire.storage.journal.options import StorageOptions
from quire.storage.node import BookieNode
from tests.storage.scene import KEY, eventually, run_of

STARTS = 4
PAYLOAD = bytes(1 << 20)
OPTIONS = StorageOptions(space_check_seconds=0.05)
OTHERS_BYTES = 48 << 20
FIRST_FENCE = 1000


async def start(root: Path, store: MemoryStore) -> tuple[LocalDisk, BookieNode]:
    disk = LocalDisk(root)
    cookie = await identify(disk, store)
    node = await BookieNode.open(
        disk, cookie.bookie, cookie.cluster, rng=random.Random(1), on_fatal=fail, options=OPTIONS
    )
    return disk, node


def fail(error: BaseException) -> None:
    raise SystemExit(f"the bookie failed: {error!r}")


async def store_entries(node: BookieNode, first: int) -> int:
    """Let a recovery write until an entry waits for room; return how many were stored."""
    entry = first
    while True:
        run = run_of(1, entry, payload=PAYLOAD, lac=-1)
        try:
            async with asyncio.timeout(3):
                await node.add(1, KEY, run, recovery=True)
        except (TimeoutError, QuireError):
            return entry
        entry += 1


def take_what_is_left(root: Path) -> None:
    """Fill the file system to the last block."""
    descriptor = os.open(root / "others", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        for size in (1 << 20, 4096):
            try:
                while True:
                    os.write(descriptor, bytes(size))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
    finally:
        os.close(descriptor)


async def fence(node: BookieNode, ledger: int) -> None:
    assert (await node.read_tail(ledger, fence_key=KEY)).fenced


async def check(node: BookieNode, entries: int, fences: range) -> None:
    """Entries and fences are there."""
    for entry in range(entries):
        assert await node.read(1, entry, entry) == run_of(1, entry, payload=PAYLOAD, lac=-1)
    for ledger in fences:
        assert (await node.read_tail(ledger)).fenced
    try:
        await node.add(fences[0], KEY, run_of(fences[0], 0))
    except (LedgerFencedError, QuireError):
        return
    raise AssertionError("an entry was added to a fenced ledger")


async def main(root: Path) -> None:
    store = MemoryStore()
    disk = LocalDisk(root)
    await format_disk(disk, store, random.Random(1))
    await disk.close()
    (root / "others").write_bytes(bytes(OTHERS_BYTES))
    disk, node = await start(root, store)
    stored = await store_entries(node, 0)
    take_what_is_left(root)
    assert os.statvfs(root).f_bavail == 0
    fences = range(FIRST_FENCE, FIRST_FENCE)
    for number in range(1, STARTS + 1):
        for ledger in range(fences.stop, fences.stop + 100):
            await fence(node, ledger)
        fences = range(FIRST_FENCE, fences.stop + 100)
        await node.abort()
        await disk.close()
        disk, node = await start(root, store)
        await check(node, stored, fences)
        print(f"start {number}: {stored} entries and {len(fences)} fences are there", flush=True)
    (root / "others").unlink()
    await eventually(lambda: not node._engine._segments.is_starved)
    assert await store_entries(node, stored) > stored
    await node.close()
    await disk.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
