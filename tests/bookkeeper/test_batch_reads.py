"""Batch reads: which ranges they serve, bookies that know none, and bookies that lie."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.aio.timing import time_limit
from quire.bookie import READ_BYTES_MAX, BookieAddress, Stride
from quire.bookkeeper.apache_bookie import ApacheBookie
from quire.bookkeeper.batch_reads import ENTRIES_MIN, sound_run
from quire.bookkeeper.protobuf import Field, Message
from quire.bookkeeper.single_reads import WantedRange
from quire.bookkeeper.status import Status
from quire.bookkeeper.wire2 import FixedAnswer, Opcode
from quire.bookkeeper.wire3 import Operation
from quire.entry import DigestKind, EntryId, LedgerId, Sealer
from quire.errors import (
    BookieUnavailableError,
    CorruptEntryError,
    NoSuchEntryError,
    NoSuchLedgerError,
)
from quire.run import pack_run, split_run
from tests.support.apache_bookie import BATCH, BATCH_WORD, FakeApacheBookie
from tests.support.apache_cluster import ApacheClusterInMemory

LEDGER = 7
SEALER = Sealer(LEDGER, DigestKind.CRC32C, b"")
KEY = SEALER.access_key
COUNT = 100
OTHER = Sealer(LEDGER + 1, DigestKind.CRC32C, b"")


def frame(entry: int, payload: bytes = b"x", sealer: Sealer = SEALER) -> bytes:
    return sealer.seal(entry, entry - 1, 1 << 40, payload)


def run_of(*entries: int, payload: bytes = b"x") -> bytes:
    return pack_run(frame(each, payload) for each in entries)


@asynccontextmanager
async def linked(far: FakeApacheBookie, timeout: float = 5.0) -> AsyncIterator[ApacheBookie]:
    bookie = ApacheBookie(
        BookieAddress("b1", "b1:3181"), request_timeout=timeout, connect=far.connect
    )
    try:
        yield bookie
    finally:
        await bookie.close()


@asynccontextmanager
async def filled(far: FakeApacheBookie, timeout: float = 5.0) -> AsyncIterator[ApacheBookie]:
    """A link to a bookie with entries 0 … COUNT − 1."""
    async with linked(far, timeout) as bookie:
        await bookie.add(LEDGER, KEY, run_of(*range(COUNT)))
        yield bookie


def ids(run: bytes) -> list[EntryId]:
    return [entry for entry, _ in split_run(run)]


async def test_a_range_is_one_request() -> None:
    far = FakeApacheBookie()
    async with filled(far) as bookie:
        run = await bookie.read(LEDGER, 3, COUNT + 5)
        assert run == run_of(*range(3, COUNT))
        assert far.asked_batches == [(3, COUNT + 3, READ_BYTES_MAX)]
        assert Operation.READ not in far.asked
        whole = Stride(3, 3, 1)
        assert ids(await bookie.read(LEDGER, 0, 40, stride=whole)) == list(range(41))
        assert len(far.asked_batches) == 2


@pytest.mark.parametrize("why", ["few entries", "a fence", "stripes"])
async def test_what_a_batch_does_not_serve_is_read_entry_by_entry(why: str) -> None:
    far = FakeApacheBookie()
    async with filled(far) as bookie:
        last = ENTRIES_MIN - 2 if why == "few entries" else COUNT - 1
        key = KEY if why == "a fence" else None
        stride = Stride(3, 2, 0) if why == "stripes" else None
        run = await bookie.read(LEDGER, 0, last, fence_key=key, stride=stride)
        wanted = [each for each in range(last + 1) if stride is None or stride.gives(each)]
        assert ids(run) == wanted
        assert far.asked_batches == []
        assert far.ledgers[LEDGER].fenced == (why == "a fence")


async def test_a_bookie_that_knows_no_batches_is_asked_once_for_each_connection() -> None:
    """Reads that began together share the connection that is closed."""
    far = FakeApacheBookie(batches=False)
    async with filled(far) as bookie:
        runs = await asyncio.gather(*(bookie.read(LEDGER, each, each + 49) for each in range(4)))
        assert [ids(run) for run in runs] == [list(range(each, each + 50)) for each in range(4)]
        assert len(far.asked_batches) == 1
        for _ in range(5):
            await asyncio.sleep(10)  # longer than any pause after a connection that broke
            assert ids(await bookie.read(LEDGER, 0, 49)) == list(range(50))
        assert len(far.asked_batches) == 1
        far.crash()
        far.batches = True  # it came back with a later release
        await asyncio.sleep(1)
        assert ids(await bookie.read(LEDGER, 0, 49)) == list(range(50))
        assert len(far.asked_batches) == 2


async def test_a_denial_tells_that_a_bookie_without_batches_is_well() -> None:
    far = FakeApacheBookie(batches=False)
    async with filled(far) as bookie:
        for _ in range(3):
            with pytest.raises(NoSuchEntryError):
                await bookie.read(LEDGER, COUNT, COUNT + 50)
            await asyncio.sleep(10)
        assert len(far.asked_batches) == 1


async def test_a_failure_tells_nothing_about_batches() -> None:
    class Failing(FakeApacheBookie):
        fails = True

        async def _read(self, part: Message, priority: int) -> tuple[Status, list[Field]]:
            if self.fails:
                return Status.IO_ERROR, [(2, LEDGER), (3, part.number(2))]
            return await super()._read(part, priority)

    far = Failing(batches=False)
    async with filled(far) as bookie:
        with pytest.raises(BookieUnavailableError, match="disk"):
            await bookie.read(LEDGER, 0, 49)
        far.fails, far.batches = False, True
        await asyncio.sleep(10)
        assert ids(await bookie.read(LEDGER, 0, 49)) == list(range(50))
        assert len(far.asked_batches) == 2


async def test_a_bookie_that_breaks_off_keeps_its_batches() -> None:
    """Both connections end: that is no statement about batches."""

    class Crashing(FakeApacheBookie):
        def batch(
            self, ledger: LedgerId, first: EntryId, count: int, bytes_max: int
        ) -> tuple[int, bytes]:
            if len(self.asked_batches) == 1:
                self.crash()
            return super().batch(ledger, first, count, bytes_max)

    far = Crashing()
    async with filled(far) as bookie:
        with pytest.raises(BookieUnavailableError):
            await bookie.read(LEDGER, 0, 49)
        await asyncio.sleep(1)
        assert ids(await bookie.read(LEDGER, 0, 49)) == list(range(50))
        assert len(far.asked_batches) == 2


async def test_a_connection_that_breaks_after_an_answer_is_made_again() -> None:
    far = FakeApacheBookie()
    async with filled(far) as bookie:
        await bookie.read(LEDGER, 0, 49)
        (second,) = [each for each in far.connections if each.is_second]
        far.batches = False  # closes at the next batch
        assert ids(await bookie.read(LEDGER, 0, 49)) == list(range(50))
        assert second.is_closing()
        far.batches = True
        await asyncio.sleep(1)
        assert ids(await bookie.read(LEDGER, 0, 49)) == list(range(50))
        assert len(far.asked_batches) == 3


@pytest.mark.parametrize("status", [Status.BAD_REQUEST, Status.UNAUTHORIZED, Status.BAD_VERSION])
async def test_a_bookie_that_refuses_batches_is_read_entry_by_entry(status: Status) -> None:
    class Refusing(FakeApacheBookie):
        def batch(
            self, ledger: LedgerId, first: EntryId, count: int, bytes_max: int
        ) -> tuple[int, bytes]:
            code = {Status.BAD_REQUEST: 100, Status.UNAUTHORIZED: 102, Status.BAD_VERSION: 103}
            return code[status], b""

    far = Refusing()
    async with filled(far) as bookie:
        for _ in range(3):
            assert ids(await bookie.read(LEDGER, 0, 49)) == list(range(50))
        assert len(far.asked_batches) == 1


async def test_a_failed_disk_is_not_asked_again_by_singles() -> None:
    class Failing(FakeApacheBookie):
        def batch(
            self, ledger: LedgerId, first: EntryId, count: int, bytes_max: int
        ) -> tuple[int, bytes]:
            return 101, b""

    far = Failing()
    async with filled(far) as bookie:
        with pytest.raises(BookieUnavailableError, match="disk"):
            await bookie.read(LEDGER, 0, 49)
        assert Operation.READ not in far.asked


async def test_a_bookie_that_hangs_loses_its_connection() -> None:
    far = FakeApacheBookie()
    async with filled(far, timeout=1.0) as bookie:
        await bookie.read(LEDGER, 0, 49)
        (second,) = [each for each in far.connections if each.is_second]
        far.mute = True
        reading = asyncio.create_task(bookie.read(LEDGER, 0, 49))
        await asyncio.sleep(0.5)
        reading.cancel()  # as a reader does that has asked another bookie
        await asyncio.sleep(1)
        assert second.is_closing()
        far.mute = False
        assert ids(await bookie.read(LEDGER, 0, 49)) == list(range(50))


async def within(seconds: float, reading: Awaitable[bytes]) -> list[EntryId] | None:
    """The ids that a reader with little patience gets, None when it gives up."""
    try:
        async with time_limit(seconds):
            return ids(await reading)
    except TimeoutError:
        return None


async def test_a_bookie_that_swallows_batches_is_read_in_spite_of_impatient_readers() -> None:
    class Swallowing(FakeApacheBookie):
        async def answer_batch(self, data: bytes) -> bytes | None:
            await asyncio.sleep(3600)
            return None

    far = Swallowing()
    async with filled(far) as bookie:
        found = []
        for _ in range(6):
            found.append(await within(1, bookie.read(LEDGER, 0, 49)))
            await asyncio.sleep(10)
        assert found == [None, *[list(range(50))] * 5]
        assert len(far.connections) == 1


async def test_a_second_connection_that_hangs_is_waited_for_once() -> None:
    class Hanging(FakeApacheBookie):
        hangs = True

        async def connect(self, protocol: asyncio.Protocol) -> asyncio.Transport:
            if self.connections and self.hangs:
                await asyncio.sleep(3600)
            return await super().connect(protocol)

    far = Hanging()
    async with filled(far) as bookie:
        found = []
        for _ in range(6):
            found.append(await within(1, bookie.read(LEDGER, 0, 49)))
            await asyncio.sleep(10)
        assert found == [None, *[list(range(50))] * 5]
        far.hangs = False
        for _ in range(3):  # the next connection stands, and is used then
            await asyncio.sleep(10)
            assert ids(await bookie.read(LEDGER, 0, 49)) == list(range(50))
        assert far.asked_batches


@pytest.mark.parametrize("place", [(LEDGER, 1), (LEDGER + 1, 0)])
async def test_a_denial_of_another_entry_denies_nothing(place: tuple[LedgerId, EntryId]) -> None:
    class Misplaced(FakeApacheBookie):
        async def answer_batch(self, data: bytes) -> bytes | None:
            _, _, _, request, _, _ = BATCH.unpack(data)
            return struct.pack(">Iiqqq", BATCH_WORD, 1, *place, request)

    async with filled(Misplaced()) as bookie:
        with pytest.raises(CorruptEntryError, match="another entry"):
            await bookie.read(LEDGER, 0, 49)


async def test_an_answer_has_as_many_bytes_as_were_asked_for() -> None:
    far = FakeApacheBookie()
    async with linked(far) as bookie:
        large = b"y" * 1000
        await bookie.add(LEDGER, KEY, run_of(*range(20), payload=large))
        run = await bookie.read(LEDGER, 0, 19, bytes_max=5000)
        assert ids(run) == list(range(4))
        assert ids(await bookie.read(LEDGER, 4, 19, bytes_max=10)) == ids(
            await bookie.read(LEDGER, 4, 19, bytes_max=1)
        )
        assert ids(await bookie.read(LEDGER, 4, 30, bytes_max=1)) == [4]


async def test_a_gap_ends_a_batch_and_denies_one_entry_at_most() -> None:
    far = FakeApacheBookie()
    async with linked(far) as bookie:
        await bookie.add(LEDGER, KEY, run_of(0, 1, 2, 40, 41))
        assert ids(await bookie.read(LEDGER, 0, 99)) == [0, 1, 2]
        assert ids(await bookie.read(LEDGER, 3, 99)) == [40, 41]
        with pytest.raises(NoSuchEntryError) as caught:
            await bookie.read(LEDGER, 3, 39)
        assert caught.value.through == 39
        with pytest.raises(NoSuchEntryError):
            await bookie.read(LEDGER, 42, 99)
        with pytest.raises(NoSuchLedgerError):
            await bookie.read(LEDGER + 1, 0, 99)


LIES: dict[str, tuple[Callable[[], bytes], list[EntryId] | None]] = {
    "nothing": (lambda: b"", None),
    "no frames": (lambda: b"\0\0\0\4abcd", None),
    "a size that lies": (lambda: run_of(0, 1) + b"\xff\xff\xff\xff" + bytes(40), [0, 1]),
    "an end inside a frame": (lambda: run_of(*range(20))[:-1], list(range(19))),
    "another first entry": (lambda: run_of(*range(1, 20)), None),
    "an earlier entry": (lambda: run_of(0, 1, 1, 2), [0, 1]),
    "a gap": (lambda: run_of(0, 1, *range(3, 20)), [0, 1]),
    "another ledger": (lambda: pack_run([frame(0), frame(1, sealer=OTHER)]), [0]),
    "another ledger from the start": (
        lambda: pack_run(frame(each, sealer=OTHER) for each in range(20)),
        None,
    ),
    "more entries than asked for": (lambda: run_of(*range(80)), list(range(50))),
    "more bytes than asked for": (lambda: run_of(*range(50), payload=b"z" * 200), list(range(10))),
    "an impossible LAC": (
        lambda: pack_run([frame(0), SEALER.seal(1, 5, 9, b"x"), frame(2)]),
        [0],
    ),
}


@pytest.mark.parametrize("lie", LIES)
async def test_an_answer_counts_up_to_its_first_lie(lie: str) -> None:
    make, expected = LIES[lie]

    class Lying(FakeApacheBookie):
        def batch(
            self, ledger: LedgerId, first: EntryId, count: int, bytes_max: int
        ) -> tuple[int, bytes]:
            return 0, make()

    far = Lying()
    async with filled(far) as bookie:
        bytes_max = 2500 if "bytes" in lie else READ_BYTES_MAX
        if expected is None:
            with pytest.raises(CorruptEntryError, match="another entry"):
                await bookie.read(LEDGER, 0, 49, bytes_max=bytes_max)
            return
        assert ids(await bookie.read(LEDGER, 0, 49, bytes_max=bytes_max)) == expected


async def test_an_answer_to_another_question_is_not_taken() -> None:
    wanted = WantedRange(LEDGER, 0, 49, READ_BYTES_MAX, None)
    body = run_of(*range(50))
    for ledger, first in ((LEDGER + 1, 0), (LEDGER, 1)):
        answer = FixedAnswer(Opcode.BATCH_READ, Status.OK, ledger, first, 1, body)
        with pytest.raises(CorruptEntryError):
            sound_run(wanted, answer)


@given(st.binary(max_size=200), st.integers(0, 400), st.integers(0, 1500), st.integers(1, 2000))
def test_damaged_answers_are_cut_or_refused(
    noise: bytes, at: int, end: int, bytes_max: int
) -> None:
    """What is left of any bytes is a run of consecutive entries from the first on."""
    honest = run_of(*range(20))
    body = (honest[:at] + noise + honest[at + len(noise) :])[:end]
    answer = FixedAnswer(Opcode.BATCH_READ, Status.OK, LEDGER, 0, 1, memoryview(body))
    try:
        run = sound_run(WantedRange(LEDGER, 0, 15, bytes_max, None), answer)
    except CorruptEntryError:
        return
    assert body.startswith(run)
    found = ids(run)
    assert found == list(range(len(found)))
    assert len(found) <= 16
    assert len(found) == 1 or len(run) <= bytes_max


async def test_a_reader_takes_the_copy_of_another_bookie() -> None:
    """A batch with a payload that was changed is damage of one copy, as a single read is."""
    spoilt: list[EntryId] = []
    async with ApacheClusterInMemory(3) as cluster:
        writer = await cluster.catalog.create()
        await writer.append_many([b"%d" % each for each in range(COUNT)])
        await writer.close()
        for far in cluster.fakes.values():
            held = far.ledgers[writer.ledger]
            if not spoilt:
                spoilt.append(50)
                held.frames[50] = held.frames[50][:-1] + b"?"
        for first in range(3):  # another bookie is asked at first
            reader = await cluster.catalog.open(writer.ledger)
            found = [entry.payload async for entry in reader.read(first, None)]
            assert found == [b"%d" % each for each in range(first, COUNT)]
        assert all(far.asked_batches for far in cluster.fakes.values())
        assert not any(Operation.READ in far.asked for far in cluster.fakes.values())
