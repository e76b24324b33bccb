"""A denial says how far it reaches and what it means."""

from __future__ import annotations

import asyncio

import pytest

from quire.bookie import Meaning, read_denial
from quire.errors import (
    LedgerDisownedError,
    LedgerFencedError,
    NoSuchEntryError,
    NoSuchLedgerError,
    QuireError,
)
from tests.contract.bookie.capabilities import BookieCapability
from tests.contract.bookie.frames import KEY, LEDGER, SEALER, run_of
from tests.contract.bookie.subjects import SOON, Run, Subject
from tests.contract.capabilities import lacks, needs


async def denied(subject: Subject, first: int, last: int, *, fencing: bool = False) -> QuireError:
    with pytest.raises(QuireError) as caught:
        await subject.bookie.read(LEDGER, first, last, fence_key=KEY if fencing else None)
    return caught.value


@pytest.mark.parametrize("fencing", [False, True])
def test_what_a_denial_reaches_is_not_held(run: Run, fencing: bool) -> None:
    """The ids 0, 2, 3 and 7 are held. Every range is asked for."""

    async def check(subject: Subject) -> None:
        held = {0, 2, 3, 7}
        await subject.bookie.add(LEDGER, KEY, run_of(*sorted(held)))
        for first in range(10):
            for last in range(first, 10):
                if held & set(range(first, last + 1)) and first in held:
                    continue
                try:
                    await subject.bookie.read(
                        LEDGER, first, last, fence_key=KEY if fencing else None
                    )
                except NoSuchEntryError as error:
                    found = read_denial(error, first, last)
                    assert found.meaning is Meaning.ABSENT
                    assert found.first == first <= found.through <= last
                    assert not held & set(range(found.first, found.through + 1))

    run(check)


@needs(BookieCapability.DENIES_RANGES)
def test_a_range_that_is_absent_is_denied_at_once(run: Run) -> None:
    async def check(subject: Subject) -> None:
        await subject.bookie.add(LEDGER, KEY, run_of(0, 1))
        found = read_denial(await denied(subject, 2, 9), 2, 9)
        assert found == (Meaning.ABSENT, 2, 9)

    run(check)


@lacks(BookieCapability.DENIES_RANGES)
def test_a_bookie_that_asks_one_by_one_denies_one_entry(run: Run) -> None:
    """Though it holds a later entry, which a denial of the range would hide."""

    async def check(subject: Subject) -> None:
        await subject.bookie.add(LEDGER, KEY, run_of(0, 5))
        found = read_denial(await denied(subject, 2, 9), 2, 9)
        assert found == (Meaning.ABSENT, 2, 2)

    run(check)


def test_a_ledger_never_seen_is_denied_altogether(run: Run) -> None:
    async def check(subject: Subject) -> None:
        error = await denied(subject, 2, 9)
        assert isinstance(error, NoSuchLedgerError)
        assert read_denial(error, 2, 9) == (Meaning.ABSENT, 2, 9)

    run(check)


@needs(BookieCapability.KEEPS_IDS)
def test_a_retired_ledger_is_denied_by_metadata_only(run: Run) -> None:
    async def check(subject: Subject) -> None:
        await subject.bookie.add(LEDGER, KEY, run_of(0))
        await subject.retire(LEDGER)
        for fencing in (False, True):
            error = await denied(subject, 0, 5, fencing=fencing)
            assert read_denial(error, 0, 5).meaning is Meaning.RETIRED

    run(check)


@needs(BookieCapability.KEEPS_IDS)
def test_a_disowned_ledger_denies_nothing_and_stays_fenced(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        await bookie.add(LEDGER, KEY, run_of(0))
        await subject.disown(LEDGER)
        for fencing in (False, True):
            error = await denied(subject, 0, 5, fencing=fencing)
            assert read_denial(error, 0, 5).meaning is Meaning.DISOWNED
        with pytest.raises(LedgerDisownedError):
            await bookie.read_tail(LEDGER)
        with pytest.raises(LedgerDisownedError):
            await bookie.add(LEDGER, KEY, run_of(1), recovery=True)
        with pytest.raises(LedgerFencedError):
            await bookie.add(LEDGER, KEY, run_of(1))
        with pytest.raises(LedgerFencedError):
            await bookie.write_lac(LEDGER, KEY, SEALER.seal_lac(0))
        async with asyncio.timeout(SOON):
            assert (await bookie.wait_tail(LEDGER, 5, 60.0)).fenced
        assert await bookie.list_entries(LEDGER) == []

    run(check)


@lacks(BookieCapability.KEEPS_IDS, BookieCapability.REFUSES_DROPPED)
def test_a_dropped_ledger_is_as_never_seen(run: Run) -> None:
    """So no such bookie may drop a ledger while a writer of it can be alive."""

    async def check(subject: Subject) -> None:
        for drop in (subject.retire, subject.disown):
            await subject.bookie.add(LEDGER, KEY, run_of(0))
            await drop(LEDGER)
            assert isinstance(await denied(subject, 0, 0), NoSuchLedgerError)
            await subject.bookie.add(LEDGER, KEY, run_of(1))

    run(check)
