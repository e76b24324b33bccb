"""The traps of Apache's bookies: each test fails without the link's remedy for one of them."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from quire.bookie import BookieAddress
from quire.bookkeeper import wire3
from quire.bookkeeper.apache_bookie import ApacheBookie
from quire.bookkeeper.protobuf import Field, Message
from quire.bookkeeper.shared_adds import SharedAdds
from quire.bookkeeper.status import Status
from quire.bookkeeper.wire3 import BookieAnswer, Operation
from quire.entry import DigestKind, Sealer
from quire.errors import (
    BookieUnavailableError,
    ClientRefusedError,
    InvalidRequestError,
    LedgerFencedError,
    NoSuchEntryError,
    NoSuchLedgerError,
    QuireError,
)
from quire.run import pack_run, split_run
from quire.wire.adds import AddKind
from tests.support.apache_bookie import FakeApacheBookie

LEDGER = 7
SEALER = Sealer(LEDGER, DigestKind.CRC32C, b"")
KEY = SEALER.access_key


def run_of(*entries: int, payload: bytes = b"x") -> bytes:
    return pack_run(SEALER.seal(each, each - 1, 1 << 40, payload) for each in entries)


@asynccontextmanager
async def linked(far: FakeApacheBookie, timeout: float = 5.0) -> AsyncIterator[ApacheBookie]:
    address = BookieAddress("b1", "b1:3181")
    bookie = ApacheBookie(address, request_timeout=timeout, connect=far.connect)
    try:
        yield bookie
    finally:
        await bookie.close()


async def denied(bookie: ApacheBookie, first: int, last: int) -> QuireError:
    with pytest.raises((NoSuchEntryError, NoSuchLedgerError)) as caught:
        await bookie.read(LEDGER, first, last, fence_key=KEY)
    return caught.value


@pytest.mark.parametrize("by", ["entry", "nothing held"])
async def test_a_fence_that_was_refused_survives_a_crash(by: str) -> None:
    """Ablated by `forces`: a FORCE that reaches no journal leaves the fence as it was."""
    for forces in (True, False):
        far = FakeApacheBookie()
        far.forces = forces
        async with linked(far) as bookie:
            if by != "nothing held":
                await bookie.add(LEDGER, KEY, run_of(0))
            if by == "nothing held":
                await bookie.read_tail(LEDGER, fence_key=KEY)
            else:
                await denied(bookie, 3, 3)
            far.crash()
            await asyncio.sleep(1)
            if forces:
                with pytest.raises(LedgerFencedError):
                    await bookie.add(LEDGER, KEY, run_of(1))
            else:
                await bookie.add(LEDGER, KEY, run_of(1))


async def test_a_range_is_not_denied_by_its_first_entry() -> None:
    far = FakeApacheBookie()
    async with linked(far) as bookie:
        await bookie.add(LEDGER, KEY, run_of(5, 40))
        for first in range(6, 40):
            run = await bookie.read(LEDGER, first, 65_535)
            assert [entry for entry, _ in split_run(run)] == [40]
        error = await denied(bookie, 41, 65_535)
        assert isinstance(error, NoSuchEntryError)
        assert error.through == 65_535
        assert await denied(bookie, 6, 30) is not None


async def test_a_failure_in_a_range_denies_what_came_before_only() -> None:
    """A bookie that fails to read an entry holds it: it is not passed over at the first place."""

    class Failing(FakeApacheBookie):
        async def _read(self, part: Message, priority: int) -> tuple[Status, list[Field]]:
            if part.number(2) == 3:
                return Status.IO_ERROR, [(2, LEDGER), (3, 3)]
            return await super()._read(part, priority)

    far = Failing()
    async with linked(far) as bookie:
        await bookie.add(LEDGER, KEY, run_of(0, 1, 3, 4))
        assert [entry for entry, _ in split_run(await bookie.read(LEDGER, 0, 9))] == [0, 1]
        for first in (2, 3):
            with pytest.raises(BookieUnavailableError, match="disk"):
                await bookie.read(LEDGER, first, 9)


async def test_a_list_that_never_comes_costs_time_once() -> None:
    far = FakeApacheBookie(lists=False)
    loop = asyncio.get_running_loop()
    async with linked(far) as bookie:
        await bookie.add(LEDGER, KEY, run_of(0, 1, 7))
        for expected in (1.0, 0.0):
            began = loop.time()
            assert await bookie.list_entries(LEDGER) == [(0, 1), (7, 7)]
            assert loop.time() - began == pytest.approx(expected, abs=0.1)
        assert far.asked.count(Operation.LIST_ENTRIES) == 1


async def test_a_lower_lac_never_replaces_a_higher_one() -> None:
    far = FakeApacheBookie()
    async with linked(far) as bookie:
        for lac in (3, 2, 3):
            await bookie.write_lac(LEDGER, KEY, SEALER.seal_lac(lac))
        assert far.ledgers[LEDGER].lac_packet == SEALER.seal_lac(3)
        tail = await bookie.read_tail(LEDGER)
        assert (tail.lac_packet, tail.hint, tail.frame) == (SEALER.seal_lac(3), 3, None)


async def test_a_request_that_would_reset_the_connection_is_not_sent() -> None:
    """Everything else under way would lose its answer with it."""
    far = FakeApacheBookie()
    async with linked(far) as bookie:
        frame = SEALER.seal(1, 0, 1 << 40, b"") + bytes(wire3.FRAME_BYTES_MAX)
        first = asyncio.ensure_future(bookie.add(LEDGER, KEY, run_of(0)))
        with pytest.raises(InvalidRequestError):
            await bookie.add(LEDGER, KEY, pack_run([frame]))
        await first
        assert len(far.connections) == 1


async def test_a_connection_that_breaks_fails_its_calls_and_the_next_call_connects() -> None:
    far = FakeApacheBookie()
    async with linked(far) as bookie:
        await bookie.add(LEDGER, KEY, run_of(0))
        far.mute = True
        calls: list[asyncio.Future[object]] = [
            asyncio.ensure_future(bookie.add(LEDGER, KEY, run_of(1))),
            asyncio.create_task(bookie.read(LEDGER, 0, 0)),
            asyncio.create_task(bookie.wait_tail(LEDGER, 9, 60.0)),
        ]
        await asyncio.sleep(0.01)
        far.mute = False
        far.crash()
        outcomes = await asyncio.gather(*calls[:2], return_exceptions=True)
        assert all(isinstance(each, BookieUnavailableError) for each in outcomes)
        calls[2].cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await asyncio.sleep(0.1)
        assert (await bookie.read(LEDGER, 0, 0)) == run_of(0)


async def test_a_call_may_be_cancelled_while_its_connection_ends() -> None:
    """As when a stopped process wakes, and both its caller and its connection are out of time."""
    far = FakeApacheBookie()
    far.mute = True
    async with linked(far, timeout=10.0) as bookie:
        reading = asyncio.create_task(bookie.read(LEDGER, 0, 0))
        await asyncio.sleep(1)
        assert bookie._connection is not None
        bookie._connection.end("it hangs")
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
    del reading
    gc.collect()  # a failure that is not looked at would be reported now, and fail the test


async def test_a_bookie_that_hangs_is_given_up_in_time() -> None:
    far = FakeApacheBookie()
    async with linked(far, timeout=2.0) as bookie:
        await bookie.add(LEDGER, KEY, run_of(0))
        far.mute = True
        adding = asyncio.ensure_future(bookie.add(LEDGER, KEY, run_of(1)))
        with pytest.raises(BookieUnavailableError, match=r"no answer|sent nothing"):
            await bookie.read(LEDGER, 0, 0)
        with pytest.raises(BookieUnavailableError):
            await adding
        assert far.connections == set(), "it is asked over a new connection"


async def test_a_sync_does_not_vouch_for_another_life_of_the_bookie() -> None:
    far = FakeApacheBookie()
    async with linked(far) as bookie:
        await bookie.add(LEDGER, KEY, run_of(0, 1))
        await bookie.add(LEDGER, KEY, run_of(2, 3), deferred=True)
        assert await bookie.sync(LEDGER, KEY, 2, 3) == [(2, 3)]
        await bookie.add(LEDGER, KEY, run_of(4, 5), deferred=True)
        far.crash()
        await asyncio.sleep(1)
        assert await bookie.sync(LEDGER, KEY, 2, 5) == [(2, 3)]


async def test_a_sync_reads_no_entry_that_its_connection_saw_acknowledged() -> None:
    far = FakeApacheBookie()
    async with linked(far) as bookie:
        await bookie.add(LEDGER, KEY, run_of(*range(100)), deferred=True)
        far.asked.clear()
        assert await bookie.sync(LEDGER, KEY, 0, 99) == [(0, 99)]
        assert far.asked == [Operation.READ, Operation.FORCE]


async def test_a_wait_for_a_ledger_never_seen_lasts_until_it_is_seen() -> None:
    far = FakeApacheBookie()
    loop = asyncio.get_running_loop()
    async with linked(far) as bookie:
        began = loop.time()
        waiting = asyncio.create_task(bookie.wait_tail(LEDGER, -1, 60.0))
        await asyncio.sleep(10)
        await bookie.add(LEDGER, KEY, run_of(0, 1))
        assert (await waiting).hint == 0
        assert loop.time() - began < 10.2
        assert far.asked.count(Operation.READ) < 900, "it is asked at a measured pace"


async def test_a_bookie_that_forgets_a_lac_delays_news_by_one_short_poll() -> None:
    class Forgetful(FakeApacheBookie):
        async def _poll(self, part: Message, ledger: int) -> tuple[Status, list[Field]]:
            await asyncio.sleep(part.number(5) / 1000)
            return Status.OK, [(2, ledger), (3, -1), (5, -1)]

    far = Forgetful()
    loop = asyncio.get_running_loop()
    async with linked(far) as bookie:
        await bookie.add(LEDGER, KEY, run_of(0))
        waiting = asyncio.create_task(bookie.wait_tail(LEDGER, -1, 60.0))
        await asyncio.sleep(0.1)
        await bookie.add(LEDGER, KEY, run_of(1))
        began = loop.time()
        assert (await waiting).hint == 0
        assert loop.time() - began <= 1.5


async def test_a_bookie_that_wants_authentication_is_told_from_a_wrong_password() -> None:
    class Guarded(FakeApacheBookie):
        async def answer(self, data: bytes) -> bytes | None:
            from quire.bookkeeper.protobuf import encode

            header = Message(Message(data).data(1))
            head = encode([(1, 3), (2, header.number(2)), (3, header.number(3))])
            return encode([(1, head), (2, Status.UNAUTHORIZED)])

    async with linked(Guarded()) as bookie:
        for call in (
            bookie.add(LEDGER, KEY, run_of(0)),
            bookie.read(LEDGER, 0, 0),
            bookie.read_tail(LEDGER),
            bookie.info(),
        ):
            with pytest.raises(ClientRefusedError, match="authentication"):
                await call


async def test_an_answer_that_is_another_entry_is_damage() -> None:
    class Confused(FakeApacheBookie):
        async def _read(self, part: Message, priority: int) -> tuple[Status, list[Field]]:
            return Status.OK, [(2, LEDGER), (3, part.number(2)), (4, bytes(40))]

    async with linked(Confused()) as bookie:
        with pytest.raises(QuireError, match="another entry"):
            await bookie.read(LEDGER, 0, 5)


async def test_a_read_asks_at_once_for_what_fills_its_answer() -> None:
    """Once the size of a ledger's entries is known, a read waits for one answer."""
    far = FakeApacheBookie(batches=False)
    async with linked(far) as bookie:
        await bookie.add(LEDGER, KEY, run_of(*range(600)))
        link = bookie._link()
        windows: list[int] = []
        ask = link.call_many

        async def counted(
            makes: Sequence[Callable[[int], bytes]], timeout: float | None = None
        ) -> list[BookieAnswer | QuireError]:
            windows.append(len(makes))
            return await ask(makes, timeout)

        link.call_many = counted  # type: ignore[method-assign]
        assert len(list(split_run(await bookie.read(LEDGER, 0, 99)))) == 100
        assert windows == [1, 16, 32, 51]
        windows.clear()
        assert len(list(split_run(await bookie.read(LEDGER, 100, 599)))) == 500
        assert windows == [500]
        windows.clear()
        size = len(await bookie.read(LEDGER, 0, 0))
        run = await bookie.read(LEDGER, 10, 599, bytes_max=10 * size)
        found = [entry for entry, _ in split_run(run)]
        assert found == list(range(10, 10 + len(found)))
        assert 8 <= len(found) <= 11, "frames are smaller in a run with others"
        windows.clear()
        await bookie.read(LEDGER, 0, 99, fence_key=KEY)
        assert windows[0] == 1, "a fence is answered before anything else is asked"


async def test_a_read_of_known_entries_denies_no_more_than_one_of_unknown_ones() -> None:
    far = FakeApacheBookie()
    async with linked(far) as bookie:
        await bookie.add(LEDGER, KEY, run_of(0, 1, 2, 5, 6, 40))
        await bookie.read(LEDGER, 0, 0)
        assert LEDGER in bookie._entries._sizes
        assert [entry for entry, _ in split_run(await bookie.read(LEDGER, 0, 2))] == [0, 1, 2]
        assert [entry for entry, _ in split_run(await bookie.read(LEDGER, 3, 6))] == [5, 6]
        assert [entry for entry, _ in split_run(await bookie.read(LEDGER, 7, 90))] == [40]
        with pytest.raises(NoSuchEntryError) as caught:
            await bookie.read(LEDGER, 7, 30)
        assert caught.value.through == 30
        with pytest.raises(NoSuchEntryError) as caught:
            await bookie.read(LEDGER, 41, 60)
        assert caught.value.through == 60


async def test_a_run_is_encoded_once_for_all_bookies_of_a_client() -> None:
    adds = SharedAdds()
    bookies = [FakeApacheBookie() for _ in range(3)]
    links = [
        ApacheBookie(BookieAddress(f"b{number}", f"b{number}:3181"), connect=far.connect, adds=adds)
        for number, far in enumerate(bookies)
    ]
    try:
        run = run_of(0, 1, 2)
        prepared = [adds.prepare(link, AddKind(LEDGER, KEY), run) for link in (*links, links[0])]
        assert prepared[0] is prepared[1] is prepared[2]
        assert prepared[3] is not prepared[0], "answers to both could not be told apart"
        assert prepared[3].transaction == prepared[0].transaction + 3
        for kind in (
            AddKind(LEDGER, KEY, recovery=True),
            AddKind(LEDGER, KEY, deferred=True),
            AddKind(LEDGER, b"other"),
        ):
            assert adds.prepare(links[1], kind, run) is not prepared[3]
        run = run_of(3, 4)
        await asyncio.gather(*(link.add(LEDGER, KEY, run) for link in links))
        await asyncio.gather(*(link.read(LEDGER, 3, 4) for link in links))
        await asyncio.gather(*(link.add(LEDGER, KEY, run) for link in links))
        for far in bookies:
            assert sorted(far.ledgers[LEDGER].frames) == [3, 4]
    finally:
        for link in links:
            await link.close()


class _Chopped(asyncio.Protocol):
    """Hands bytes on in pieces of a few."""

    def __init__(self, inner: asyncio.Protocol, size: int) -> None:
        self._inner = inner
        self._size = size
        self.connection_made = inner.connection_made  # type: ignore[method-assign]
        self.connection_lost = inner.connection_lost  # type: ignore[method-assign]

    def data_received(self, data: bytes) -> None:
        for at in range(0, len(data), self._size):
            self._inner.data_received(data[at : at + self._size])


@pytest.mark.parametrize("size", [1, 3, 64, 4096])
async def test_answers_may_come_in_pieces_of_any_size(size: int) -> None:
    far = FakeApacheBookie()

    async def connect(inner: asyncio.Protocol) -> asyncio.Transport:
        return await far.connect(_Chopped(inner, size))

    bookie = ApacheBookie(BookieAddress("b1", "b1:3181"), connect=connect)
    try:
        wanted = [0, 1, 2, 5]
        await bookie.add(LEDGER, KEY, run_of(*wanted, payload=bytes(1000)))
        for first, last in ((0, 2), (0, 2), (5, 5)):
            run = await bookie.read(LEDGER, first, last)
            found = [entry for entry, _ in split_run(run)]
            assert found == [each for each in wanted if first <= each <= last]
    finally:
        await bookie.close()
