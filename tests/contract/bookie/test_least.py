"""Facts, strides, fences and syncs: what some bookies tell, and what holds where one does not."""

from __future__ import annotations

import pytest

from quire.bookie import Stride, read_denial
from quire.errors import LedgerFencedError, NoSuchEntryError, UnsupportedError
from tests.contract.bookie.capabilities import BookieCapability
from tests.contract.bookie.frames import KEY, LEDGER, WRONG_KEY, ids, run_of
from tests.contract.bookie.subjects import Run, Subject
from tests.contract.capabilities import lacks, needs


@needs(BookieCapability.TELLS_FACTS)
def test_a_bookie_counts_its_ledgers(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        empty = await bookie.info()
        assert (empty.ledgers, empty.in_limbo, empty.highest) == (0, 0, -1)
        await bookie.add(LEDGER, KEY, run_of(0))
        found = await bookie.info()
        assert (found.ledgers, found.in_limbo, found.highest) == (1, 0, LEDGER)
        await subject.retire(LEDGER + 3)
        assert (await bookie.info()).highest == LEDGER + 3

    run(check)


@lacks(BookieCapability.TELLS_FACTS)
def test_a_fact_that_is_not_known_is_none(run: Run) -> None:
    """It is never a number that looks like an answer."""

    async def check(subject: Subject) -> None:
        await subject.bookie.add(LEDGER, KEY, run_of(0))
        found = await subject.bookie.info()
        assert (found.ledgers, found.in_limbo, found.highest) == (None, None, None)

    run(check)


@lacks(BookieCapability.LISTS_LEDGERS)
def test_a_list_that_cannot_be_made_is_refused(run: Run) -> None:
    """An empty one would say that no ledger is there."""

    async def check(subject: Subject) -> None:
        await subject.bookie.add(LEDGER, KEY, run_of(0))
        with pytest.raises(UnsupportedError, match="list of its ledgers"):
            await subject.bookie.list_ledgers()

    run(check)


@lacks(BookieCapability.TELLS_OUTLINES)
def test_outlines_that_cannot_be_told_are_refused(run: Run) -> None:
    """None would say that the ledgers' lists tell."""

    async def check(subject: Subject) -> None:
        await subject.bookie.add(LEDGER, KEY, run_of(0))
        with pytest.raises(UnsupportedError, match="outlines of ledgers"):
            await subject.bookie.outlines([LEDGER])

    run(check)


@lacks(BookieCapability.NAMES_FENCES)
def test_a_fence_that_is_not_named_holds(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        await bookie.add(LEDGER, KEY, run_of(0))
        assert (await bookie.read_tail(LEDGER, fence_key=KEY)).fenced is None
        assert (await bookie.wait_tail(LEDGER, 5, 0.0)).fenced is None
        with pytest.raises(LedgerFencedError):
            await bookie.add(LEDGER, KEY, run_of(1))

    run(check)


@lacks(BookieCapability.CHECKS_SYNC)
def test_a_sync_without_checks_names_what_is_held(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        await bookie.add(LEDGER, KEY, run_of(0, 1), deferred=True)
        await bookie.read_tail(LEDGER, fence_key=KEY)
        assert await bookie.sync(LEDGER, WRONG_KEY, 0, 9) == [(0, 1)]

    run(check)


@pytest.mark.parametrize("position", range(3))
def test_with_a_stride_own_entries_are_found_and_no_held_entry_is_denied(
    run: Run, position: int
) -> None:
    """The bookie holds the entries of one position, and some that were given to it besides."""

    async def check(subject: Subject) -> None:
        stride = Stride(3, 2, position)
        own = {entry for entry in range(12) if stride.gives(entry)}
        assert len(own) == 8
        held = own | {4, 5}
        await subject.bookie.add(LEDGER, KEY, run_of(*sorted(held)))
        for first in range(14):
            for last in range(first, 14):
                wanted = set(range(first, last + 1))
                try:
                    found = await subject.bookie.read(LEDGER, first, last, stride=stride)
                except NoSuchEntryError as error:
                    denial = read_denial(error, first, last)
                    assert not held & set(range(first, denial.through + 1))
                else:
                    assert own & wanted <= set(ids(found)) <= held & wanted

    run(check)
