"""Keys, fences and read-only bookies: who is refused, and who still gets in."""

from __future__ import annotations

import asyncio

import pytest

from quire.entry import NO_ENTRY, EntryId
from quire.errors import LedgerFencedError, ReadOnlyBookieError, UnauthorizedError
from quire.run import pack_run
from tests.contract.bookie.capabilities import BookieCapability
from tests.contract.bookie.frames import KEY, LEDGER, SEALER, WRONG_KEY, frame, ids, run_of
from tests.contract.bookie.subjects import ABSENT, Run, Subject
from tests.contract.capabilities import needs


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


@needs(BookieCapability.NAMES_FENCES)
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


@needs(BookieCapability.NAMES_FENCES)
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


@needs(BookieCapability.NAMES_FENCES)
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


@needs(BookieCapability.NAMES_FENCES)
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
