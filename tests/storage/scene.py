"""A bookie on a simulated disk, with small sizes, that tests can kill and start again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial

from quire.bookie import list_all
from quire.entry import DigestKind, Sealer
from quire.observer import SILENT, Observer
from quire.run import pack_run, split_run
from quire.storage.disk.port import Disk
from quire.storage.identity.cookie import format_bookie
from quire.storage.journal.options import StorageOptions
from quire.storage.node import BookieNode
from tests.sim.disk import Cut, SimDisk, SimMount

BOOKIE = "b" * 32
CLUSTER = "c" * 32
KEY = b"k" * 20
OTHER_KEY = b"o" * 20
SMALL = StorageOptions(
    segment_bytes=64 * 1024,
    batch_bytes_max=16 * 1024,
    write_cache_bytes=32 * 1024,
    memory_bytes_max=96 * 1024,
    low_space_bytes=128 * 1024,
    high_space_bytes=256 * 1024,
)


def sealed(ledger: int, entry: int, payload: bytes | None = None, lac: int | None = None) -> bytes:
    """Return a frame; the payload names the entry unless one is given."""
    sealer = Sealer(ledger, DigestKind.CRC32C, b"")
    body = b"%d/%d" % (ledger, entry) if payload is None else payload
    return sealer.seal(entry, entry - 1 if lac is None else lac, 1 << 40, body)


def run_of(
    ledger: int, *entries: int, payload: bytes | None = None, lac: int | None = None
) -> bytes:
    """Return the run of some entries."""
    return pack_run(sealed(ledger, entry, payload, lac) for entry in entries)


@dataclass
class Scene:
    """One bookie and its disk."""

    seed: int = 1
    options: StorageOptions = SMALL
    observer: Observer = SILENT
    fatal: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.disk = SimDisk(self.rng)
        self.starts = 0

    async def start(self) -> BookieNode:
        """Format the disk if it is new, and open the bookie."""
        self.starts += 1
        self.mount = self.disk.mount()
        disk, bookie, cluster = await self.formatted(self.mount)
        self.node = await BookieNode.open(
            *(disk, bookie, cluster),
            rng=self.rng,
            on_fatal=self.fatal.append,
            options=self.options,
            observer=self.observer,
        )
        return self.node

    async def formatted(self, mount: SimMount) -> tuple[Disk, str, str]:
        """Return the disk to serve, formatted, and whose it is."""
        await format_bookie(mount, BOOKIE, CLUSTER)
        return mount, BOOKIE, CLUSTER

    async def kill(self) -> None:
        """The process dies; the page cache stays."""
        self.disk.kill()
        await self.node.abort()

    async def cut(self, cut: Cut = Cut.MIXES) -> None:
        """The power fails."""
        self.disk.power_cut(cut)
        await self.node.abort()

    async def cut_short(
        self, change: int, work: Coroutine[None, None, object], cut: Cut = Cut.MIXES
    ) -> bool:
        """Let the power fail in a change of the disk, counted from now, while work on it is under
        way; return whether it was done before that.
        """
        self.disk.halt_at(change)
        working = asyncio.ensure_future(work)
        halted = asyncio.ensure_future(self.disk.halted.wait())
        await asyncio.wait({working, halted}, return_when=asyncio.FIRST_COMPLETED)
        halted.cancel()
        is_done = working.done()
        working.cancel()
        await asyncio.gather(working, halted, return_exceptions=True)
        self.disk.power_cut(cut)
        return is_done

    async def close(self) -> None:
        """The bookie stops in good order. A crash point set on the disk stays set."""
        await self.node.close()
        await self.mount.close()

    async def entries(self, ledger: int, first: int = 0, last: int = 1 << 40) -> dict[int, bytes]:
        """Return every entry the bookie holds of a ledger, read in steps."""
        found: dict[int, bytes] = {}
        for start, end in await list_all(partial(self.node.list_entries, ledger)):
            at = max(first, start)
            while at <= min(end, last):
                run = await self.node.read(ledger, at, min(end, last))
                found.update(split_run(run))
                at = max(found) + 1
        return found


async def eventually(condition: Callable[[], bool]) -> None:
    """Return once a condition holds that the bookie looks at from time to time."""
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came true")


def drive(main: object) -> None:
    """Run a test's coroutine, within a time no healthy test needs."""

    async def bounded() -> None:
        async with asyncio.timeout(60):
            await main  # type: ignore[misc]

    asyncio.run(bounded())
