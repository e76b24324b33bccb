"""An entry that a bookie holds is never replaced by an ordinary add (B12)."""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import CorruptEntryError
from quire.run import pack_run
from tests.contract.bookie.capabilities import BookieCapability
from tests.contract.bookie.frames import KEY, LEDGER, frame, run_of
from tests.contract.bookie.subjects import Run, Subject
from tests.contract.capabilities import lacks, needs


@needs(BookieCapability.KEEPS_ENTRIES)
def test_an_entry_with_other_bytes_is_refused(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        await bookie.add(LEDGER, KEY, run_of(0, 1, 2))
        for other in (
            run_of(1, payload=b"y"),
            run_of(0, 1, 2, payload=b"z"),
            run_of(2, 3, payload=b"long enough to be another size"),
            pack_run([frame(1, lac=-1)]),
        ):
            with pytest.raises(CorruptEntryError, match="other bytes"):
                await bookie.add(LEDGER, KEY, other)
        assert await bookie.read(LEDGER, 0, 9) == run_of(0, 1, 2), "nothing of it was stored"
        await bookie.add(LEDGER, KEY, run_of(3))

    run(check)


def test_the_same_bytes_are_acknowledged_again(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        await bookie.add(LEDGER, KEY, run_of(0, 2, 4))
        for again in (run_of(0), run_of(2, 4), run_of(1, 2, 3), run_of(4, 5)):
            await bookie.add(LEDGER, KEY, again)
        assert await bookie.read(LEDGER, 0, 9) == run_of(0, 1, 2, 3, 4, 5)

    run(check)


def test_a_recovery_seals_an_entry_anew(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        await bookie.add(LEDGER, KEY, run_of(0, 1))
        again = pack_run([frame(1, lac=-1)])
        await bookie.read_tail(LEDGER, fence_key=KEY)
        await bookie.add(LEDGER, KEY, again, recovery=True)
        assert await bookie.read(LEDGER, 1, 1) == again

    run(check)


@needs(BookieCapability.KEEPS_ENTRIES)
def test_of_two_that_come_at_once_the_first_stays(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        await bookie.add(LEDGER, KEY, run_of(0))
        first, second = await asyncio.gather(
            bookie.add(LEDGER, KEY, run_of(1, 2)),
            bookie.add(LEDGER, KEY, run_of(1, payload=b"y")),
            return_exceptions=True,
        )
        assert first is None
        assert isinstance(second, CorruptEntryError)
        assert await bookie.read(LEDGER, 1, 2) == run_of(1, 2)

    run(check)


@needs(BookieCapability.KEEPS_ENTRIES)
def test_what_is_only_accepted_is_not_replaced_either(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        await bookie.add(LEDGER, KEY, run_of(0), deferred=True)
        with pytest.raises(CorruptEntryError):
            await bookie.add(LEDGER, KEY, run_of(0, payload=b"y"), deferred=True)
        assert await bookie.sync(LEDGER, KEY, 0, 9) == [(0, 0)]

    run(check)


@lacks(BookieCapability.KEEPS_ENTRIES, BookieCapability.NEVER_REPLACES)
def test_an_entry_that_can_be_replaced_is_the_last_one_added(run: Run) -> None:
    """So whatever relies on B12 cannot rely on such a bookie: a writer sends no entry twice."""

    async def check(subject: Subject) -> None:
        await subject.bookie.add(LEDGER, KEY, run_of(0, 1))
        other = run_of(1, payload=b"y")
        await subject.bookie.add(LEDGER, KEY, other)
        assert await subject.bookie.read(LEDGER, 1, 1) == other

    run(check)
