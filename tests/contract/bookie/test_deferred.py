"""Deferred adds, and the syncs that make them durable."""

from __future__ import annotations

import pytest

from quire.errors import InvalidRequestError, LedgerFencedError, UnauthorizedError
from tests.contract.bookie.capabilities import BookieCapability
from tests.contract.bookie.frames import KEY, LEDGER, WRONG_KEY, frame, ids, run_of
from tests.contract.bookie.subjects import Run, Subject
from tests.contract.capabilities import needs


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


@needs(BookieCapability.CHECKS_SYNC)
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


@needs(BookieCapability.CHECKS_SYNC)
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
