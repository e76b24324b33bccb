"""How `bookie.zip` and `cold.parquet` were written; run with the directory to write them into.

The bookie has ledger 7 in an entry log, ledger 10 in the journal alone, a fence of ledger 8 and the
retired ledger 9. Its process was killed, so that a start has to replay the journal.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Final

from quire.entry import DigestKind, Entry, Sealer, access_key
from quire.errors import QuireError
from quire.log.cold.parquet import FileWriter
from quire.log.manifest.cold_files import ColdFile
from quire.log.manifest.segment import Segment, SegmentEnd
from quire.log.records.batch import encode_batch
from quire.run import pack_run, split_run
from quire.storage.disk.local import LocalDisk
from quire.storage.identity.cookie import format_bookie
from quire.storage.journal.options import StorageOptions
from quire.storage.node import BookieNode

BOOKIE, CLUSTER = "b" * 32, "c" * 32
KEY = access_key(b"secret")
OPTIONS = StorageOptions(
    segment_bytes=64 * 1024,
    batch_bytes_max=16 * 1024,
    write_cache_bytes=2000,
    memory_bytes_max=96 * 1024,
    low_space_bytes=128 * 1024,
    high_space_bytes=256 * 1024,
)

LOG_ID: Final = "1" * 32
LEDGER: Final = 5
BATCHES: Final = [
    encode_batch([b"one", b"two"], first_offset=0, epoch=1, timestamp_ms=1000),
    encode_batch([b"three"], first_offset=2, epoch=1, timestamp_ms=2000),
]
COLD: Final = ColdFile("", "00000001-5-0000abcd.parquet", 3205, 2490716134)
"""With the size and the checksum of the golden file."""

HELD: Final[dict[int, Any]] = {
    7: [(entry, b"entry %d " % entry * 100) for entry in range(4)],
    8: "LedgerFencedError",
    9: "LedgerRetiredError",
    10: [(0, b"in the journal")],
}


def run_of(ledger: int, entries: list[tuple[int, bytes]]) -> bytes:
    sealer = Sealer(ledger, DigestKind.CRC32C, b"secret")
    return pack_run(sealer.seal(entry, entry - 1, 1 << 40, data) for entry, data in entries)


def _fail(error: BaseException) -> None:
    raise AssertionError("storage failed") from error


async def open_node(disk: LocalDisk) -> BookieNode:
    return await BookieNode.open(
        disk, BOOKIE, CLUSTER, rng=random.Random(1), on_fatal=_fail, options=OPTIONS
    )


async def look(disk: LocalDisk) -> dict[int, Any]:
    """Return what a bookie on this disk holds, in the form of `HELD`."""
    node = await open_node(disk)
    found: dict[int, Any] = {}
    for ledger in HELD:
        sealer = Sealer(ledger, DigestKind.CRC32C, b"secret")
        try:
            await node.add(ledger, KEY, run_of(ledger, [(90, b"")]))
            run = await node.read(ledger, 0, 80)
            found[ledger] = [(at, sealer.unseal(at, frame).payload) for at, frame in split_run(run)]
        except QuireError as error:
            found[ledger] = type(error).__name__
            if ledger == 9:
                try:
                    await node.read(ledger, 0, 80)
                except QuireError as denial:
                    found[ledger] = type(denial).__name__
    await node.close()
    await disk.close()
    return found


async def make_bookie(directory: Path) -> None:
    disk = LocalDisk(directory, create=True)
    await format_bookie(disk, BOOKIE, CLUSTER)
    node = await open_node(disk)
    await node.add(7, KEY, run_of(7, HELD[7]))
    await node.add(9, KEY, run_of(9, [(0, b"gone")]))
    await node.read_tail(8, fence_key=KEY)
    while not list((directory / "entries").glob("*.entries")):  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    await node._storage.retire([9])
    await node.add(10, KEY, run_of(10, HELD[10]))
    await node.abort()
    await disk.close()


def make_cold(target: Path) -> ColdFile:
    with tempfile.TemporaryDirectory() as directory:
        end = SegmentEnd(1, 1, 3, 100, 2000)
        segment = Segment(1, LEDGER, 1, 1000, 0, end)
        tier = f"file://{directory}/{LOG_ID}"
        writer = FileWriter("orders", LOG_ID, segment, tier, COLD.name)
        writer.add([Entry(LEDGER, at, at - 1, 99, data) for at, data in enumerate(BATCHES)])
        cold = writer.finish()
        target.write_bytes((Path(directory) / LOG_ID / "_attempts" / COLD.name).read_bytes())
        return cold


def main() -> None:
    target = Path(sys.argv[1])
    print(make_cold(target / "cold.parquet"))
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name) / "bookie"
        asyncio.run(make_bookie(directory))
        with zipfile.ZipFile(target / "bookie.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(directory.rglob("*")):
                archive.write(path, path.relative_to(directory))


if __name__ == "__main__":
    main()
