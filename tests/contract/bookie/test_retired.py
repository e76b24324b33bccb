"""A ledger that was dropped because it was deleted: its id bars its writer forever (B11)."""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import LedgerFencedError, LedgerRetiredError
from tests.contract.bookie.capabilities import BookieCapability
from tests.contract.bookie.frames import KEY, LEDGER, SEALER, run_of
from tests.contract.bookie.subjects import SOON, Run, Subject
from tests.contract.bookie.test_tail import asleep
from tests.contract.capabilities import needs

OTHER_KEY = b"o" * 20


@needs(BookieCapability.KEEPS_IDS)
def test_a_retired_ledger_takes_nothing_whatever_the_key(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        await bookie.add(LEDGER, KEY, run_of(0))
        await bookie.read_tail(LEDGER, fence_key=KEY)
        await subject.retire(LEDGER)
        for key in (KEY, OTHER_KEY):
            for deferred in (False, True):
                with pytest.raises(LedgerFencedError):
                    await bookie.add(LEDGER, key, run_of(1), deferred=deferred)
            with pytest.raises(LedgerRetiredError):
                await bookie.add(LEDGER, key, run_of(1), recovery=True)
            with pytest.raises(LedgerFencedError):
                await bookie.write_lac(LEDGER, key, SEALER.seal_lac(0))
            with pytest.raises(LedgerFencedError):
                await bookie.sync(LEDGER, key, 0, 9)
        assert await bookie.list_entries(LEDGER) == []

    run(check)


@needs(BookieCapability.KEEPS_IDS)
def test_reads_and_fences_are_told_that_it_was_retired(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        await bookie.add(LEDGER, KEY, run_of(0, 1))
        await subject.retire(LEDGER)
        for key in (None, KEY, OTHER_KEY):
            with pytest.raises(LedgerRetiredError):
                await bookie.read(LEDGER, 0, 0, fence_key=key)
            with pytest.raises(LedgerRetiredError):
                await bookie.read_tail(LEDGER, fence_key=key)
        with pytest.raises(LedgerFencedError):
            await bookie.add(LEDGER, KEY, run_of(2))

    run(check)


@needs(BookieCapability.KEEPS_IDS)
@pytest.mark.parametrize("drop", ["retire", "disown"])
def test_a_wait_for_news_ends_as_if_the_ledger_were_fenced(run: Run, drop: str) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        await bookie.add(LEDGER, KEY, run_of(0))
        waiting = asyncio.ensure_future(bookie.wait_tail(LEDGER, 5, 60))
        await asleep(bookie, waiting)
        await {"retire": subject.retire, "disown": subject.disown}[drop](LEDGER)
        async with asyncio.timeout(SOON):
            assert (await waiting).fenced
            assert (await bookie.wait_tail(LEDGER, 5, 60)).fenced

    run(check)


@needs(BookieCapability.KEEPS_IDS)
def test_other_ledgers_are_not_concerned(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        await subject.retire(LEDGER - 1)
        await subject.retire(LEDGER + 1)
        await bookie.add(LEDGER, KEY, run_of(0))
        assert await bookie.list_entries(LEDGER) == [(0, 0)]

    run(check)
