"""What a leader owes is answered, also when its office is cut short."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quire.errors import DeposedError
from quire.log.records.position import Position
from quire.service.office import Office


class StuckLog:
    """Takes records and never confirms them."""

    name = "log"
    epoch = 7

    def __init__(self) -> None:
        self.room = asyncio.Event()
        self.waiting = asyncio.Event()

    def _submit_now(self, record: bytes) -> asyncio.Future[Position] | None:
        if record == b"large" or self.waiting.is_set():
            return None
        return asyncio.get_running_loop().create_future()

    async def submit(self, record: bytes) -> asyncio.Future[Position]:
        if record == b"large":
            self.waiting.set()
            await self.room.wait()
        return asyncio.get_running_loop().create_future()


async def test_who_is_cut_short_answers_what_is_under_way_what_waits_and_what_comes_late() -> None:
    log: Any = StuckLog()
    office: Office[None] = Office(log, lambda record, position: None)
    submits = [asyncio.create_task(office.submit(record)) for record in (b"a", b"b", b"large")]
    await log.waiting.wait()
    ending = asyncio.create_task(office.end())
    await asyncio.sleep(1)
    assert not ending.done()
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    await asyncio.sleep(1)
    assert [submit.done() for submit in submits] == [True, True, False]
    log.room.set()
    for submit in submits:
        with pytest.raises(DeposedError, match="told to stop"):
            await submit


async def test_a_caller_that_gives_up_leaves_its_command_in_its_turn() -> None:
    """Its record may have its place in the log by then."""
    log: Any = StuckLog()
    applied = list[bytes]()
    office: Office[None] = Office(log, lambda record, position: applied.append(record))
    confirmed = dict[bytes, asyncio.Future[Any]]()
    queued = asyncio.Queue[asyncio.Future[Any]]()
    submit = log.submit

    async def queue(record: bytes) -> asyncio.Future[Any]:
        confirmed[record] = await submit(record)
        queued.put_nowait(confirmed[record])
        return confirmed[record]

    log.submit = queue
    giving_up = asyncio.create_task(office.submit(b"large"))
    await log.waiting.wait()
    patient = asyncio.create_task(office.submit(b"b"))
    await asyncio.sleep(0)
    log.room.set()
    giving_up.cancel()
    await asyncio.wait([giving_up])
    assert giving_up.cancelled()
    for each in (b"large", b"b"):
        (await queued.get()).set_result(None)
        assert each in confirmed
    await patient
    assert applied == [b"large", b"b"]
    await office.end()
