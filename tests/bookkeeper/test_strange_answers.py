"""Bookies of Apache's that answer in forms of their own, at once, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from quire.bookie import BookieAddress
from quire.bookkeeper.apache_bookie import ApacheBookie
from quire.bookkeeper.protobuf import Field, Message
from quire.bookkeeper.status import Status
from quire.bookkeeper.wire3 import Operation
from quire.entry import DigestKind, LedgerId, Sealer
from quire.errors import BookieBusyError, BookieUnavailableError
from quire.run import pack_run
from tests.support.apache_bookie import FakeApacheBookie

LEDGER = 7
SEALER = Sealer(LEDGER, DigestKind.CRC32C, b"")
KEY = SEALER.access_key

Answer = tuple[Status, list[Field]]


def run_of(*entries: int) -> bytes:
    return pack_run(SEALER.seal(each, each - 1, 1 << 40, b"x") for each in entries)


@asynccontextmanager
async def linked(far: FakeApacheBookie) -> AsyncIterator[ApacheBookie]:
    bookie = ApacheBookie(BookieAddress("b1", "b1:3181"), connect=far.connect)
    try:
        yield bookie
    finally:
        await bookie.close()


class Strange(FakeApacheBookie):
    """Answers every question with fields of other kinds: bytes for numbers, numbers for bytes."""

    async def _read(self, part: Message, priority: int) -> Answer:
        return Status.OK, [(2, LEDGER), (3, 0), (4, 77), (5, b"lac")]

    def _read_lac(self, part: Message, priority: int) -> Answer:
        return Status.OK, [(2, LEDGER), (3, 77)]

    def _info(self, part: Message, priority: int) -> Answer:
        return Status.OK, [(2, b"much"), (3, b"free")]

    def _list_entries(self, part: Message, priority: int) -> Answer:
        return Status.OK, [(2, LEDGER), (3, 77)]


CALLS: dict[str, Callable[[ApacheBookie], Awaitable[Any]]] = {
    "the tail": lambda bookie: bookie.read_tail(LEDGER),
    "the tail, with a fence": lambda bookie: bookie.read_tail(LEDGER, fence_key=KEY),
    "news": lambda bookie: bookie.wait_tail(LEDGER, 0, 1.0),
    "space": lambda bookie: bookie.info(),
    "a list": lambda bookie: bookie.list_entries(LEDGER),
    "a sync": lambda bookie: bookie.sync(LEDGER, KEY, 0, 1),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_an_answer_in_a_form_of_its_own_fails_its_bookie(
    call: Callable[[ApacheBookie], Awaitable[Any]],
) -> None:
    """The others are asked then. Another error would end the reader, or the recovery."""
    async with linked(Strange()) as bookie:
        with pytest.raises(BookieUnavailableError, match="protocol"):
            await call(bookie)


async def test_polls_that_are_answered_at_once_are_asked_at_a_measured_pace() -> None:
    class Hasty(FakeApacheBookie):
        async def _poll(self, part: Message, ledger: LedgerId) -> Answer:
            return Status.OK, [(2, ledger), (3, -1), (5, 0)]

    far = Hasty()
    async with linked(far) as bookie:
        await bookie.add(LEDGER, KEY, run_of(0, 1))
        far.asked.clear()
        assert (await bookie.wait_tail(LEDGER, 0, 1.0)).hint == 0
        assert far.asked.count(Operation.READ_LAC) <= 25


async def test_a_bookie_whose_polls_tell_of_news_that_it_does_not_show_is_asked_slowly() -> None:
    class Boasting(FakeApacheBookie):
        async def _poll(self, part: Message, ledger: LedgerId) -> Answer:
            await asyncio.sleep(0.001)
            return Status.OK, [(2, ledger), (3, -1), (5, 1 << 40)]

    far = Boasting()
    async with linked(far) as bookie:
        await bookie.add(LEDGER, KEY, run_of(0, 1))
        far.asked.clear()
        assert (await bookie.wait_tail(LEDGER, 0, 1.0)).hint == 0
        assert far.asked.count(Operation.READ_LAC) <= 25


async def test_news_that_a_poll_tells_of_are_looked_at_at_once() -> None:
    far = FakeApacheBookie()
    loop = asyncio.get_running_loop()
    async with linked(far) as bookie:
        await bookie.add(LEDGER, KEY, run_of(0))
        waiting = asyncio.create_task(bookie.wait_tail(LEDGER, 0, 60.0))
        await asyncio.sleep(0.01)
        began = loop.time()
        await bookie.add(LEDGER, KEY, run_of(1, 2))
        assert (await waiting).hint == 1
        assert loop.time() - began < 0.01


@pytest.mark.parametrize("failure", ["no answer", "busy", "cancelled"])
async def test_a_lac_that_was_not_acknowledged_is_sent_again(failure: str) -> None:
    class Failing(FakeApacheBookie):
        fails = True

        def _write_lac(self, part: Message, priority: int) -> Answer | None:  # type: ignore[override]
            if not self.fails:
                return super()._write_lac(part, priority)
            return (Status.TOO_MANY_REQUESTS, []) if failure == "busy" else None

    far = Failing()
    async with linked(far) as bookie:
        await bookie.add(LEDGER, KEY, run_of(0, 1, 2, 3, 4))
        writing = asyncio.ensure_future(bookie.write_lac(LEDGER, KEY, SEALER.seal_lac(3)))
        if failure == "cancelled":
            await asyncio.sleep(1)
            writing.cancel()
        with pytest.raises((BookieUnavailableError, BookieBusyError, asyncio.CancelledError)):
            await writing
        far.fails = False
        await asyncio.sleep(1)
        await bookie.write_lac(LEDGER, KEY, SEALER.seal_lac(2))
        assert far.ledgers[LEDGER].lac_packet is None, "the bookie may have the higher one"
        await bookie.write_lac(LEDGER, KEY, SEALER.seal_lac(3))
        assert far.ledgers[LEDGER].lac_packet == SEALER.seal_lac(3)
