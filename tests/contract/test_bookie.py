"""What every `Bookie` promises (port 1): in memory, on disks, and at the far end of a
connection."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest

from quire.bookie import Bookie, BookieAddress
from quire.entry import NO_ENTRY, DigestKind, EntryId, Sealer
from quire.errors import (
    InvalidRequestError,
    LedgerFencedError,
    NoSuchEntryError,
    NoSuchLedgerError,
    ReadOnlyBookieError,
    UnauthorizedError,
)
from quire.ledger.remote import RemoteBookie
from quire.run import pack_run, split_run
from quire.storage.cookie import format_bookie
from quire.storage.disk import Disk, DiskSpace
from quire.storage.local_disk import LocalDisk
from quire.storage.node import BookieNode
from quire.storage.options import StorageOptions
from quire.storage.service import serve_bookie
from tests.sim.disk import SimDisk
from tests.support.memory_bookie import MemoryBookie

LEDGER = 7
SEALER = Sealer(LEDGER, DigestKind.CRC32C, b"secret")
KEY = SEALER.access_key
WRONG_KEY = Sealer(LEDGER, DigestKind.CRC32C, b"guess").access_key
ABSENT = (NoSuchEntryError, NoSuchLedgerError)
SOON = 5.0


@dataclass
class Subject:
    """A bookie under test and how to make it take no new entries."""

    bookie: Bookie
    make_read_only: Callable[[], Awaitable[None]]


Opener: TypeAlias = Callable[[Path], AbstractAsyncContextManager[Subject]]
Check: TypeAlias = Callable[[Subject], Awaitable[None]]
Run: TypeAlias = Callable[[Check], None]


@asynccontextmanager
async def memory(_: Path) -> AsyncIterator[Subject]:
    bookie = MemoryBookie("b1")

    async def make_read_only() -> None:
        bookie.writable = False

    yield Subject(bookie, make_read_only)


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

    try:
        yield Subject(node, make_read_only)
    finally:
        await node.close()


class FillableDisk(LocalDisk):
    """A real disk that can claim to be full."""

    full = False

    async def space(self) -> DiskSpace:
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
async def simulated_node(_: Path) -> AsyncIterator[Subject]:
    disk = SimDisk(random.Random(1))

    def fill() -> None:
        disk.taken_bytes += disk.free_bytes - OPTIONS.low_space_bytes // 2

    async with node_on(disk.mount(), fill) as subject:
        yield subject


def remote(opener: Opener) -> Opener:
    """The same bookie at the far end of a real connection."""

    @asynccontextmanager
    async def open_remote(path: Path) -> AsyncIterator[Subject]:
        async with opener(path) as near, serve_bookie(near.bookie, "b1") as address:
            far = RemoteBookie(BookieAddress("b1", address))
            try:
                yield Subject(far, near.make_read_only)
            finally:
                await far.close()

    return open_remote


OPENERS: dict[str, Opener] = {
    "memory": memory,
    "node": local_node,
    "simulated-node": simulated_node,
    "remote-memory": remote(memory),
    "remote-node": remote(local_node),
}


@pytest.fixture(params=sorted(OPENERS))
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    def over(check: Check) -> None:
        async def main() -> None:
            async with OPENERS[request.param](tmp_path) as subject:
                await check(subject)

        asyncio.run(main())

    return over


def frame(entry: EntryId, payload: bytes = b"x", lac: EntryId | None = None) -> bytes:
    return SEALER.seal(entry, entry - 1 if lac is None else lac, 10_000_000, payload)


def run_of(*entries: EntryId, payload: bytes = b"x") -> bytes:
    return pack_run(frame(entry, payload) for entry in entries)


def ids(run: bytes) -> list[EntryId]:
    return [entry for entry, _ in split_run(run)]


def payloads(run: bytes) -> list[bytes]:
    return [SEALER.unseal(entry, bytes(frame)).payload for entry, frame in split_run(run)]


async def asleep(bookie: Bookie, task: asyncio.Task[object]) -> None:
    """Return when requests sent before have arrived; the task must still be waiting for its."""
    for _ in range(3):
        await bookie.info()
    assert not task.done()


# --- entries --------------------------------------------------------------------------------------


def test_what_was_added_is_read(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        sent = run_of(0, 1, 2)
        await bookie.add(LEDGER, KEY, sent)
        assert await bookie.read(LEDGER, 0, 2) == sent
        assert ids(await bookie.read(LEDGER, 1, 1)) == [1]
        assert ids(await bookie.read(LEDGER, 1, 99)) == [1, 2]
        assert (await bookie.info()).ledgers == 1

    run(check)


def test_adding_the_same_again_changes_nothing(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        await bookie.add(LEDGER, KEY, run_of(0, 1))
        await bookie.add(LEDGER, KEY, run_of(0, 1))
        await bookie.add(LEDGER, KEY, run_of(1, 2))
        assert await bookie.read(LEDGER, 0, 9) == run_of(0, 1, 2)
        assert await bookie.list_entries(LEDGER) == [(0, 2)]

    run(check)


def test_adds_are_carried_out_in_the_order_of_their_calls(run: Run) -> None:
    async def check(subject: Subject) -> None:
        order: list[int] = []

        async def add(number: int) -> None:
            await subject.bookie.add(LEDGER, KEY, run_of(number))
            order.append(number)

        await asyncio.gather(*(add(number) for number in range(100)))
        assert order == list(range(100))
        assert await subject.bookie.list_entries(LEDGER) == [(0, 99)]

    run(check)


def test_ledgers_do_not_mix(run: Run) -> None:
    async def check(subject: Subject) -> None:
        other = Sealer(8, DigestKind.CRC32C, b"other")
        await subject.bookie.add(LEDGER, KEY, run_of(0, 1))
        await subject.bookie.add(8, other.access_key, pack_run([other.seal(0, -1, 1, b"o")]))
        assert await subject.bookie.list_entries(8) == [(0, 0)]
        assert await subject.bookie.read(LEDGER, 0, 9) == run_of(0, 1)
        await subject.bookie.read_tail(8, fence_key=other.access_key)
        await subject.bookie.add(LEDGER, KEY, run_of(2))
        assert (await subject.bookie.info()).ledgers == 2

    run(check)


def test_large_entries_travel_whole(run: Run) -> None:
    async def check(subject: Subject) -> None:
        large = bytes(range(256)) * 4 * 4096
        await subject.bookie.add(LEDGER, KEY, run_of(0, payload=large))
        await subject.bookie.add(LEDGER, KEY, run_of(1, payload=large))
        assert payloads(await subject.bookie.read(LEDGER, 0, 1, bytes_max=1)) == [large]
        both = await subject.bookie.read(LEDGER, 0, 1, bytes_max=3 * len(large))
        assert payloads(both)[0] == large

    run(check)


def test_a_read_is_cut_at_its_bytes(run: Run) -> None:
    async def check(subject: Subject) -> None:
        await subject.bookie.add(LEDGER, KEY, run_of(*range(10), payload=b"p" * 1000))
        size = len(frame(0, b"p" * 1000))
        assert ids(await subject.bookie.read(LEDGER, 3, 9, bytes_max=1)) == [3]
        cut = ids(await subject.bookie.read(LEDGER, 0, 9, bytes_max=4 * size + 16))
        assert cut == [0, 1, 2, 3]
        assert ids(await subject.bookie.read(LEDGER, 0, 9)) == list(range(10))

    run(check)


def test_gaps_are_left_out(run: Run) -> None:
    async def check(subject: Subject) -> None:
        await subject.bookie.add(LEDGER, KEY, run_of(0, 2, 4))
        await subject.bookie.add(LEDGER, KEY, run_of(5, 9))
        assert ids(await subject.bookie.read(LEDGER, 1, 9)) == [2, 4, 5, 9]
        assert await subject.bookie.list_entries(LEDGER) == [(0, 0), (2, 2), (4, 5), (9, 9)]
        with pytest.raises(NoSuchEntryError):
            await subject.bookie.read(LEDGER, 6, 8)

    run(check)


def test_entries_may_arrive_late_and_out_of_order(run: Run) -> None:
    async def check(subject: Subject) -> None:
        await subject.bookie.add(LEDGER, KEY, run_of(5, 6))
        await subject.bookie.add(LEDGER, KEY, run_of(0, 1))
        assert ids(await subject.bookie.read(LEDGER, 0, 9)) == [0, 1, 5, 6]
        tail = await subject.bookie.read_tail(LEDGER)
        assert tail.frame == frame(6)

    run(check)


def test_negative_answers(run: Run) -> None:
    async def check(subject: Subject) -> None:
        with pytest.raises(ABSENT):
            await subject.bookie.read(LEDGER, 0, 0)
        assert await subject.bookie.list_entries(LEDGER) == []
        await subject.bookie.add(LEDGER, KEY, run_of(0))
        with pytest.raises(NoSuchEntryError) as raised:
            await subject.bookie.read(LEDGER, 1, 5)
        assert (raised.value.ledger, raised.value.entry) == (LEDGER, 1)

    run(check)


# --- keys and fences ------------------------------------------------------------------------------


def test_the_first_key_is_the_key(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        await bookie.add(LEDGER, KEY, run_of(0))
        for recovery in (False, True):
            with pytest.raises(UnauthorizedError) as raised:
                await bookie.add(LEDGER, WRONG_KEY, run_of(1), recovery=recovery)
            assert raised.value.ledger == LEDGER
        with pytest.raises(UnauthorizedError):
            await bookie.write_lac(LEDGER, WRONG_KEY, SEALER.seal_lac(0))
        with pytest.raises(UnauthorizedError):
            await bookie.read(LEDGER, 0, 0, fence_key=WRONG_KEY)
        with pytest.raises(UnauthorizedError):
            await bookie.read_tail(LEDGER, fence_key=WRONG_KEY)
        await bookie.add(LEDGER, KEY, run_of(1))
        assert await bookie.list_entries(LEDGER) == [(0, 1)]
        tail = await bookie.read_tail(LEDGER)
        assert not tail.fenced
        assert tail.lac_packet is None

    run(check)


def test_a_fence_stays(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        await bookie.add(LEDGER, KEY, run_of(0))
        tail = await bookie.read_tail(LEDGER, fence_key=KEY)
        assert tail.fenced
        assert tail.frame == frame(0)
        for _ in range(2):
            with pytest.raises(LedgerFencedError) as raised:
                await bookie.add(LEDGER, KEY, run_of(1))
            assert raised.value.ledger == LEDGER
        with pytest.raises(LedgerFencedError):
            await bookie.write_lac(LEDGER, KEY, SEALER.seal_lac(0))
        assert (await bookie.read_tail(LEDGER)).fenced
        assert await bookie.list_entries(LEDGER) == [(0, 0)]

    run(check)


def test_a_read_fences_when_asked(run: Run) -> None:
    async def check(subject: Subject) -> None:
        await subject.bookie.add(LEDGER, KEY, run_of(0))
        await subject.bookie.read(LEDGER, 0, 0)
        await subject.bookie.add(LEDGER, KEY, run_of(1))
        assert ids(await subject.bookie.read(LEDGER, 1, 1, fence_key=KEY)) == [1]
        with pytest.raises(LedgerFencedError):
            await subject.bookie.add(LEDGER, KEY, run_of(2))

    run(check)


@pytest.mark.parametrize("by", ["read", "tail"])
def test_a_ledger_never_seen_is_fenced_as_well(run: Run, by: str) -> None:
    async def check(subject: Subject) -> None:
        if by == "read":
            with pytest.raises(ABSENT):
                await subject.bookie.read(LEDGER, 3, 3, fence_key=KEY)
        else:
            tail = await subject.bookie.read_tail(LEDGER, fence_key=KEY)
            assert (tail.frame, tail.hint, tail.fenced) == (None, NO_ENTRY, True)
        with pytest.raises(LedgerFencedError):
            await subject.bookie.add(LEDGER, KEY, run_of(0))
        with pytest.raises(UnauthorizedError):
            await subject.bookie.add(LEDGER, WRONG_KEY, run_of(0), recovery=True)

    run(check)


def test_recovery_adds_pass_the_fence_and_replace(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        await bookie.add(LEDGER, KEY, run_of(0, 1))
        await bookie.read_tail(LEDGER, fence_key=KEY)
        sealed_again = frame(1, lac=NO_ENTRY)
        assert sealed_again != frame(1)
        await bookie.add(LEDGER, KEY, pack_run([sealed_again, frame(2)]), recovery=True)
        assert await bookie.read(LEDGER, 0, 9) == pack_run([frame(0), sealed_again, frame(2)])
        with pytest.raises(LedgerFencedError):
            await bookie.add(LEDGER, KEY, run_of(3))

    run(check)


def test_adds_racing_a_fence_are_refused_after_it(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie

        async def add(entry: EntryId) -> EntryId | None:
            try:
                await bookie.add(LEDGER, KEY, run_of(entry))
            except LedgerFencedError:
                return None
            return entry

        adds = [asyncio.create_task(add(entry)) for entry in range(50)]
        fence = asyncio.create_task(bookie.read_tail(LEDGER, fence_key=KEY))
        acknowledged = [entry for entry in await asyncio.gather(*adds) if entry is not None]
        assert (await fence).fenced
        assert acknowledged == list(range(len(acknowledged))), "an add overtook a refused one"
        held = await bookie.list_entries(LEDGER)
        assert set(acknowledged) <= {e for first, last in held for e in range(first, last + 1)}
        with pytest.raises(LedgerFencedError):
            await bookie.add(LEDGER, KEY, run_of(99))

    run(check)


def test_a_read_only_bookie_still_serves_and_recovers(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        await bookie.add(LEDGER, KEY, run_of(0))
        await subject.make_read_only()
        with pytest.raises(ReadOnlyBookieError) as raised:
            await bookie.add(LEDGER, KEY, run_of(1))
        assert raised.value.bookie == "b1"
        assert not (await bookie.info()).writable
        assert ids(await bookie.read(LEDGER, 0, 0)) == [0]
        assert (await bookie.read_tail(LEDGER, fence_key=KEY)).fenced
        await bookie.add(LEDGER, KEY, run_of(1), recovery=True)
        assert await bookie.list_entries(LEDGER) == [(0, 1)]

    run(check)


# --- the tail -------------------------------------------------------------------------------------


def test_the_tail_is_the_highest_of_everything(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        tail = await bookie.read_tail(LEDGER)
        assert (tail.frame, tail.lac_packet, tail.hint, tail.fenced) == (None, None, -1, False)
        await bookie.add(LEDGER, KEY, run_of(0, 1, 2))
        tail = await bookie.read_tail(LEDGER)
        assert (tail.frame, tail.lac_packet, tail.hint) == (frame(2), None, 1)
        await bookie.write_lac(LEDGER, KEY, SEALER.seal_lac(2))
        tail = await bookie.read_tail(LEDGER)
        assert (tail.frame, tail.lac_packet, tail.hint) == (frame(2), SEALER.seal_lac(2), 2)

    run(check)


def test_the_highest_explicit_lac_wins(run: Run) -> None:
    async def check(subject: Subject) -> None:
        for lac in (3, 5, 4, 5):
            await subject.bookie.write_lac(LEDGER, KEY, SEALER.seal_lac(lac))
        tail = await subject.bookie.read_tail(LEDGER)
        assert (tail.lac_packet, tail.hint) == (SEALER.seal_lac(5), 5)

    run(check)


async def _advance(bookie: Bookie) -> None:
    await bookie.add(LEDGER, KEY, run_of(1))


async def _advance_explicitly(bookie: Bookie) -> None:
    await bookie.write_lac(LEDGER, KEY, SEALER.seal_lac(0))


async def _fence(bookie: Bookie) -> None:
    await bookie.read_tail(LEDGER, fence_key=KEY)


@pytest.mark.parametrize("seen", [True, False])
@pytest.mark.parametrize("news", [_advance, _advance_explicitly, _fence])
def test_a_wait_ends_with_news(
    run: Run, news: Callable[[Bookie], Awaitable[None]], seen: bool
) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        if seen:
            await bookie.add(LEDGER, KEY, run_of(0))
        waiting = asyncio.create_task(bookie.wait_tail(LEDGER, NO_ENTRY, 60.0))
        await asleep(bookie, waiting)
        await news(bookie)
        async with asyncio.timeout(SOON):
            tail = await waiting
        assert tail.hint == 0 or tail.fenced

    run(check)


def test_a_wait_for_what_is_there_returns_at_once(run: Run) -> None:
    async def check(subject: Subject) -> None:
        await subject.bookie.add(LEDGER, KEY, run_of(0, 1))
        async with asyncio.timeout(SOON):
            assert (await subject.bookie.wait_tail(LEDGER, NO_ENTRY, 60.0)).hint == 0
            await subject.bookie.read_tail(LEDGER, fence_key=KEY)
            assert (await subject.bookie.wait_tail(LEDGER, 99, 60.0)).fenced

    run(check)


@pytest.mark.parametrize("timeout", [0.0, 0.02])
def test_a_wait_ends_when_its_time_is_up(run: Run, timeout: float) -> None:
    async def check(subject: Subject) -> None:
        await subject.bookie.add(LEDGER, KEY, run_of(0, 1))
        async with asyncio.timeout(SOON):
            tail = await subject.bookie.wait_tail(LEDGER, 0, timeout)
        assert (tail.frame, tail.hint, tail.fenced) == (frame(1), 0, False)

    run(check)


def test_many_waits_are_woken_together(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        waits = [asyncio.create_task(bookie.wait_tail(LEDGER, -1, 60.0)) for _ in range(20)]
        await asleep(bookie, waits[0])
        await bookie.add(LEDGER, KEY, run_of(0, 1))
        async with asyncio.timeout(SOON):
            assert {tail.hint for tail in await asyncio.gather(*waits)} == {0}

    run(check)


# --- requests no client of quire sends ------------------------------------------------------------

GOOD = run_of(1, 2)
MALFORMED: dict[str, bytes] = {
    "empty": b"",
    "cut": GOOD[:-1],
    "cut in a header": GOOD[:20],
    "followed by junk": GOOD + b"junk",
    "size too large": b"\xff\xff\xff\xff" + GOOD[4:],
    "size too small": b"\x00\x00\x00\x01" + GOOD[4:],
    "descending": run_of(2, 1),
    "repeated": run_of(1, 1),
    "another ledger": pack_run([Sealer(8, DigestKind.CRC32C, b"").seal(0, -1, 1, b"")]),
    "two ledgers": run_of(0) + pack_run([Sealer(8, DigestKind.CRC32C, b"").seal(1, -1, 1, b"")]),
    "LAC beyond the entry": pack_run([frame(1, lac=1)]),
}


@pytest.mark.parametrize("name", sorted(MALFORMED))
@pytest.mark.parametrize("recovery", [False, True])
def test_malformed_runs_change_nothing(run: Run, name: str, recovery: bool) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        await bookie.add(LEDGER, KEY, run_of(0))
        before = await bookie.read_tail(LEDGER)
        with pytest.raises(InvalidRequestError):
            await bookie.add(LEDGER, KEY, MALFORMED[name], recovery=recovery)
        assert await bookie.read_tail(LEDGER) == before
        assert await bookie.list_entries(LEDGER) == [(0, 0)]
        assert await bookie.list_entries(8) == []
        await bookie.add(LEDGER, KEY, run_of(1))

    run(check)


def test_malformed_runs_bind_no_key(run: Run) -> None:
    async def check(subject: Subject) -> None:
        with pytest.raises(InvalidRequestError):
            await subject.bookie.add(LEDGER, WRONG_KEY, MALFORMED["cut"])
        await subject.bookie.add(LEDGER, KEY, run_of(0))

    run(check)


@pytest.mark.parametrize(("first", "last"), [(3, 2), (-1, 5), (-2, -1)])
def test_impossible_ranges_are_refused_not_denied(run: Run, first: int, last: int) -> None:
    async def check(subject: Subject) -> None:
        await subject.bookie.add(LEDGER, KEY, run_of(0, 1, 2, 3))
        with pytest.raises(InvalidRequestError):
            await subject.bookie.read(LEDGER, first, last)
        with pytest.raises(InvalidRequestError):
            await subject.bookie.read(LEDGER, first, last, fence_key=KEY)
        assert not (await subject.bookie.read_tail(LEDGER)).fenced

    run(check)


@pytest.mark.parametrize(
    "packet", [b"", SEALER.seal_lac(3)[:15], Sealer(8, DigestKind.CRC32C, b"").seal_lac(3)]
)
def test_malformed_packets_are_refused(run: Run, packet: bytes) -> None:
    async def check(subject: Subject) -> None:
        with pytest.raises(InvalidRequestError):
            await subject.bookie.write_lac(LEDGER, KEY, packet)
        assert (await subject.bookie.read_tail(LEDGER)).lac_packet is None

    run(check)


# --- cancelled callers ----------------------------------------------------------------------------


@pytest.mark.parametrize("steps", range(4))
def test_cancelled_calls_are_harmless(run: Run, steps: int) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        await bookie.add(LEDGER, KEY, run_of(0))
        before = asyncio.ensure_future(bookie.add(LEDGER, KEY, run_of(1)))
        doomed: list[asyncio.Task[object]] = [
            asyncio.ensure_future(bookie.add(LEDGER, KEY, run_of(2))),
            asyncio.create_task(bookie.read(LEDGER, 0, 9)),
            asyncio.create_task(bookie.read_tail(LEDGER)),
            asyncio.create_task(bookie.wait_tail(LEDGER, 99, 60.0)),
            asyncio.create_task(bookie.write_lac(LEDGER, KEY, SEALER.seal_lac(0))),
        ]
        after = asyncio.ensure_future(bookie.add(LEDGER, KEY, run_of(3)))
        for _ in range(steps):
            await asyncio.sleep(0)
        for task in doomed:
            task.cancel()
        async with asyncio.timeout(SOON):
            await asyncio.gather(*doomed, return_exceptions=True)
            await asyncio.gather(before, after)
            held = ids(await bookie.read(LEDGER, 0, 9))
        assert [entry for entry in held if entry != 2] == [0, 1, 3]
        assert doomed[3].cancelled()

    run(check)


def test_deferred_adds_are_named_by_a_sync(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        await bookie.add(LEDGER, KEY, run_of(0, 1, 2), deferred=True)
        await bookie.add(LEDGER, KEY, run_of(4), deferred=True)
        assert await bookie.sync(LEDGER, KEY, 0, 9) == [(0, 2), (4, 4)]
        assert await bookie.sync(LEDGER, KEY, 1, 1) == [(1, 1)]
        assert await bookie.sync(LEDGER, KEY, 7, 9) == []
        assert ids(await bookie.read(LEDGER, 0, 9)) == [0, 1, 2, 4]

    run(check)


def test_an_ordinary_add_makes_deferred_ones_before_it_durable(run: Run) -> None:
    async def check(subject: Subject) -> None:
        await subject.bookie.add(LEDGER, KEY, run_of(0), deferred=True)
        await subject.bookie.add(LEDGER, KEY, run_of(1))
        assert ids(await subject.bookie.read(LEDGER, 0, 9)) == [0, 1]

    run(check)


def test_a_fence_refuses_deferred_adds_and_syncs_but_keeps_what_came_before(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        await bookie.add(LEDGER, KEY, run_of(0), deferred=True)
        tail = await bookie.read_tail(LEDGER, fence_key=KEY)
        assert tail.frame == frame(0)
        with pytest.raises(LedgerFencedError):
            await bookie.add(LEDGER, KEY, run_of(1), deferred=True)
        with pytest.raises(LedgerFencedError):
            await bookie.sync(LEDGER, KEY, 0, 9)

    run(check)


def test_a_sync_of_nothing_binds_no_key_and_a_wrong_key_is_refused(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        assert await bookie.sync(LEDGER, WRONG_KEY, 0, 9) == []
        await bookie.add(LEDGER, KEY, run_of(0))
        with pytest.raises(UnauthorizedError):
            await bookie.sync(LEDGER, WRONG_KEY, 0, 9)
        with pytest.raises(InvalidRequestError):
            await bookie.sync(LEDGER, KEY, 3, 2)

    run(check)
