"""Every bookie under test, how to make each take no new entries, and how to retire a ledger."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from quire.bookie import Bookie, BookieAddress
from quire.bookkeeper.apache_bookie import ApacheBookie
from quire.bookkeeper.serving.port import serve_bookkeeper
from quire.entry import NO_ENTRY, EntryId, LedgerId
from quire.errors import NoSuchEntryError, NoSuchLedgerError
from quire.ledger.remote import RemoteBookie
from quire.storage.disk.local import LocalDisk
from quire.storage.disk.port import Disk, DiskSpace
from quire.storage.identity.cookie import format_bookie
from quire.storage.journal.options import StorageOptions
from quire.storage.node import BookieNode
from quire.storage.serving.grpc_service import serve_bookie
from quire.storage.serving.limits import Reception
from quire.storage.serving.metered import Meter, MeteredBookie, MeteredDisk
from quire.storage.serving.obedient import ObedientBookie
from quire.testing.bookie import MemoryBookie
from tests.contract.bookie.capabilities import EVERYTHING, BookieCapability
from tests.contract.bookie.least import LeastBookie, OneByOneBookie
from tests.sim.disk import SimDisk
from tests.support.apache_bookie import FakeApacheBookie

ABSENT = (NoSuchEntryError, NoSuchLedgerError)
SOON = 5.0


@dataclass
class Subject:
    """A bookie under test. `retire` drops a ledger as the collector does, `disown` as a move."""

    bookie: Bookie
    make_read_only: Callable[[], Awaitable[None]]
    retire: Callable[[LedgerId], Awaitable[None]]
    disown: Callable[[LedgerId], Awaitable[None]]


Opener: TypeAlias = Callable[[Path], AbstractAsyncContextManager[Subject]]
Check: TypeAlias = Callable[[Subject], Awaitable[None]]
Run: TypeAlias = Callable[[Check], None]


@asynccontextmanager
async def memory(_: Path) -> AsyncIterator[Subject]:
    yield _in_memory(MemoryBookie("b1"))


@asynccontextmanager
async def least(_: Path) -> AsyncIterator[Subject]:
    yield _in_memory(LeastBookie("b1"))


@asynccontextmanager
async def one_by_one(_: Path) -> AsyncIterator[Subject]:
    yield _in_memory(OneByOneBookie("b1"))


def _in_memory(bookie: MemoryBookie) -> Subject:

    async def make_read_only() -> None:
        bookie.writable = False

    async def retire(ledger: LedgerId) -> None:
        bookie.retire(ledger)

    async def disown(ledger: LedgerId) -> None:
        bookie.disown(ledger)

    return Subject(bookie, make_read_only, retire, disown)


OPTIONS = StorageOptions(
    segment_bytes=8 * 1024 * 1024,
    write_cache_bytes=2000,  # so that reads meet entry-log files as well as the cache
    memory_bytes_max=32 * 1024 * 1024,
    space_check_seconds=0.01,
)


def fail(error: BaseException) -> None:
    raise AssertionError("storage failed") from error


@asynccontextmanager
async def node_on(disk: Disk, fill: Callable[[], None]) -> AsyncIterator[Subject]:
    """A storage node on a freshly formatted disk."""
    await format_bookie(disk, "b1", "cluster")
    node = await BookieNode.open(
        disk, "b1", "cluster", rng=random.Random(1), on_fatal=fail, options=OPTIONS
    )

    async def make_read_only() -> None:
        fill()
        async with asyncio.timeout(SOON):
            while (await node.info()).writable:  # noqa: ASYNC110
                await asyncio.sleep(OPTIONS.space_check_seconds)

    async def retire(ledger: LedgerId) -> None:
        await node._storage.retire([ledger])

    async def disown(ledger: LedgerId) -> None:
        await node._engine.settle()
        await node._storage.disown([ledger], ())

    try:
        yield Subject(node, make_read_only, retire, disown)
    finally:
        await node.close()


class FillableDisk(LocalDisk):
    """A real disk that can claim to be full."""

    full = False

    async def space(self, directory: str = "") -> DiskSpace:
        space = await super().space()
        return DiskSpace(0, space.total_bytes) if self.full else space


@asynccontextmanager
async def local_node(path: Path) -> AsyncIterator[Subject]:
    disk = FillableDisk(path)

    def fill() -> None:
        disk.full = True

    try:
        async with node_on(disk, fill) as subject:
            yield subject
    finally:
        await disk.close()


@asynccontextmanager
async def obedient_node(path: Path) -> AsyncIterator[Subject]:
    """The same, off duty when it is to take no new entries."""
    async with local_node(path) as inner:
        bookie = ObedientBookie(inner.bookie, "b1", lambda ledger: False)

        async def make_read_only() -> None:
            bookie.take_none("away")

        yield Subject(bookie, make_read_only, inner.retire, inner.disown)


@asynccontextmanager
async def metered_node(path: Path) -> AsyncIterator[Subject]:
    """The same with a meter above and below it."""
    meter, disk = Meter(), FillableDisk(path)

    def fill() -> None:
        disk.full = True

    try:
        async with node_on(MeteredDisk(disk, meter), fill) as subject:
            metered = MeteredBookie(subject.bookie, meter)
            yield Subject(metered, subject.make_read_only, subject.retire, subject.disown)
    finally:
        await disk.close()


@asynccontextmanager
async def simulated_node(_: Path) -> AsyncIterator[Subject]:
    disk = SimDisk(random.Random(1))

    def fill() -> None:
        disk.taken_bytes += disk.free_bytes - OPTIONS.low_space_bytes // 2

    async with node_on(disk.mount(), fill) as subject:
        yield subject


def remote(opener: Opener, listen_runs: str | None = None) -> Opener:
    """The same bookie at the far end of a real connection."""

    @asynccontextmanager
    async def open_remote(path: Path) -> AsyncIterator[Subject]:
        async with (
            opener(path) as near,
            serve_bookie(near.bookie, "b1", listen_runs=listen_runs) as address,
        ):
            far = RemoteBookie(address)
            try:
                yield Subject(far, near.make_read_only, near.retire, near.disown)
            finally:
                await far.close()

    return open_remote


def apache(*, lists: bool = True, batches: bool = True) -> Opener:
    """The link to a bookie of Apache BookKeeper, over a bookie with the habits of these."""

    @asynccontextmanager
    async def open_apache(_: Path) -> AsyncIterator[Subject]:
        far = FakeApacheBookie(lists=lists, batches=batches)
        bookie = ApacheBookie(
            BookieAddress("b1", "memory:1"), list_timeout=0.02, connect=far.connect
        )

        async def make_read_only() -> None:
            far.writable = False

        async def drop(ledger: LedgerId) -> None:
            far.ledgers.pop(ledger, None)

        try:
            yield Subject(bookie, make_read_only, drop, drop)
        finally:
            await bookie.close()

    return open_apache


def over_bookkeeper(opener: Opener) -> Opener:
    """The link to a bookie of Apache BookKeeper, over the port of a bookie of quire's for it."""

    @asynccontextmanager
    async def open_ported(path: Path) -> AsyncIterator[Subject]:
        async with opener(path) as near:
            reception = Reception(near.bookie, "b1")
            storage = near.bookie if isinstance(near.bookie, BookieNode) else Ported(near.bookie)
            async with serve_bookkeeper(reception, storage, "127.0.0.1:0", 64) as address:
                far = ApacheBookie(BookieAddress("b1", address))
                try:
                    yield Subject(far, near.make_read_only, near.retire, near.disown)
                finally:
                    await far.close()
            await reception.ended()

    return open_ported


class Ported:
    """The reference in memory as what the port for Apache's clients asks beside `Bookie`."""

    def __init__(self, bookie: Bookie) -> None:
        assert isinstance(bookie, MemoryBookie)
        self._bookie = bookie

    def lac(self, ledger: LedgerId) -> EntryId:
        found = self._bookie.ledgers.get(ledger)
        return NO_ENTRY if found is None else found.hint

    async def force(self, ledger: LedgerId) -> None:
        if (found := self._bookie.ledgers.get(ledger)) is not None:
            found.settle()


OPENERS: dict[str, Opener] = {
    "least": least,
    "memory": memory,
    "node": local_node,
    "metered-node": metered_node,
    "obedient-node": obedient_node,
    "simulated-node": simulated_node,
    "remote-memory": remote(memory),
    "remote-one-by-one": remote(one_by_one),
    "remote-node": remote(local_node),
    "framed-memory": remote(memory, "127.0.0.1:0"),
    "framed-node": remote(local_node, "127.0.0.1:0"),
}

APACHE = "apache"
OPENERS |= {
    APACHE: apache(),
    f"{APACHE}-without-lists": apache(lists=False),
    f"{APACHE}-without-batches": apache(batches=False),
}
PORTED = "bookkeeper"
PORTED_CAN = frozenset(
    {
        BookieCapability.DENIES_RANGES,
        BookieCapability.REFUSES_DROPPED,
        BookieCapability.NEVER_REPLACES,
    }
)
OPENERS |= {
    f"{PORTED}-memory": over_bookkeeper(memory),
    f"{PORTED}-node": over_bookkeeper(local_node),
}

CAPABILITIES: dict[str, frozenset[BookieCapability]] = {
    **dict.fromkeys(OPENERS, EVERYTHING),
    "least": frozenset(
        {
            BookieCapability.KEEPS_ENTRIES,
            BookieCapability.NEVER_REPLACES,
            BookieCapability.LISTS_LEDGERS,
            BookieCapability.TELLS_OUTLINES,
        }
    ),
    "remote-one-by-one": EVERYTHING - {BookieCapability.DENIES_RANGES},
    APACHE: frozenset({BookieCapability.DENIES_RANGES}),
    f"{APACHE}-without-lists": frozenset({BookieCapability.DENIES_RANGES}),
    f"{APACHE}-without-batches": frozenset({BookieCapability.DENIES_RANGES}),
    f"{PORTED}-memory": PORTED_CAN,
    f"{PORTED}-node": PORTED_CAN,
}
