"""Entries: what was added is read, whole and in order, and nothing else is."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from quire.bookie import list_all
from quire.entry import DigestKind, Sealer
from quire.errors import InvalidRequestError, NoSuchEntryError
from quire.outline import NOTHING, Outline
from quire.run import pack_run
from tests.contract.bookie.capabilities import BookieCapability
from tests.contract.bookie.frames import KEY, LEDGER, frame, ids, payloads, run_of
from tests.contract.bookie.subjects import ABSENT, Run, Subject
from tests.contract.capabilities import needs


def test_what_was_added_is_read(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        sent = run_of(0, 1, 2)
        await bookie.add(LEDGER, KEY, sent)
        assert await bookie.read(LEDGER, 0, 2) == sent
        assert ids(await bookie.read(LEDGER, 1, 1)) == [1]
        assert ids(await bookie.read(LEDGER, 1, 99)) == [1, 2]

    run(check)


def test_adding_the_same_again_changes_nothing(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        await bookie.add(LEDGER, KEY, run_of(0, 1))
        await bookie.add(LEDGER, KEY, run_of(0, 1))
        await bookie.add(LEDGER, KEY, run_of(1, 2))
        assert await bookie.read(LEDGER, 0, 9) == run_of(0, 1, 2)
        assert await bookie.list_entries(LEDGER) == [(0, 2)]

    run(check)


def test_adds_are_carried_out_in_the_order_of_their_calls(run: Run) -> None:
    async def check(subject: Subject) -> None:
        order: list[int] = []

        async def add(number: int) -> None:
            await subject.bookie.add(LEDGER, KEY, run_of(number))
            order.append(number)

        await asyncio.gather(*(add(number) for number in range(100)))
        assert order == list(range(100))
        assert await subject.bookie.list_entries(LEDGER) == [(0, 99)]

    run(check)


def test_ledgers_do_not_mix(run: Run) -> None:
    async def check(subject: Subject) -> None:
        other = Sealer(8, DigestKind.CRC32C, b"other")
        await subject.bookie.add(LEDGER, KEY, run_of(0, 1))
        await subject.bookie.add(8, other.access_key, pack_run([other.seal(0, -1, 1, b"o")]))
        assert await subject.bookie.list_entries(8) == [(0, 0)]
        assert await subject.bookie.read(LEDGER, 0, 9) == run_of(0, 1)
        await subject.bookie.read_tail(8, fence_key=other.access_key)
        await subject.bookie.add(LEDGER, KEY, run_of(2))

    run(check)


def test_large_entries_travel_whole(run: Run) -> None:
    async def check(subject: Subject) -> None:
        large = bytes(range(256)) * 4 * 4096
        await subject.bookie.add(LEDGER, KEY, run_of(0, payload=large))
        await subject.bookie.add(LEDGER, KEY, run_of(1, payload=large))
        assert payloads(await subject.bookie.read(LEDGER, 0, 1, bytes_max=1)) == [large]
        both = await subject.bookie.read(LEDGER, 0, 1, bytes_max=3 * len(large))
        assert payloads(both)[0] == large

    run(check)


def test_a_read_is_cut_at_its_bytes(run: Run) -> None:
    async def check(subject: Subject) -> None:
        await subject.bookie.add(LEDGER, KEY, run_of(*range(10), payload=b"p" * 1000))
        size = len(frame(0, b"p" * 1000))
        assert ids(await subject.bookie.read(LEDGER, 3, 9, bytes_max=1)) == [3]
        cut = ids(await subject.bookie.read(LEDGER, 0, 9, bytes_max=4 * size + 16))
        assert cut == [0, 1, 2, 3]
        assert ids(await subject.bookie.read(LEDGER, 0, 9)) == list(range(10))

    run(check)


@needs(BookieCapability.DENIES_RANGES)
def test_gaps_are_left_out(run: Run) -> None:
    async def check(subject: Subject) -> None:
        await subject.bookie.add(LEDGER, KEY, run_of(0, 2, 4))
        await subject.bookie.add(LEDGER, KEY, run_of(5, 9))
        assert ids(await subject.bookie.read(LEDGER, 1, 9)) == [2, 4, 5, 9]
        assert await subject.bookie.list_entries(LEDGER) == [(0, 0), (2, 2), (4, 5), (9, 9)]
        with pytest.raises(NoSuchEntryError):
            await subject.bookie.read(LEDGER, 6, 8)

    run(check)


def test_a_list_begins_where_it_is_to_begin(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        await bookie.add(LEDGER, KEY, run_of(0, 2, 4))
        await bookie.add(LEDGER, KEY, run_of(5, 9))
        assert await list_all(partial(bookie.list_entries, LEDGER), 3) == [(4, 5), (9, 9)]
        assert await bookie.list_entries(LEDGER, 5) == [(5, 5), (9, 9)]
        assert await bookie.list_entries(LEDGER, 10) == []
        assert await bookie.list_entries(8, 0) == []

    run(check)


@needs(BookieCapability.LISTS_LEDGERS)
def test_ledgers_with_entries_are_listed(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        assert await bookie.list_ledgers() == []
        for ledger in (9, 7, 8, 12):
            sealer = Sealer(ledger, DigestKind.CRC32C, b"")
            await bookie.add(ledger, sealer.access_key, pack_run([sealer.seal(0, -1, 1, b"o")]))
        await bookie.read_tail(20, fence_key=KEY)
        assert await list_all(bookie.list_ledgers) == [(7, 9), (12, 12)]
        assert await bookie.list_ledgers(8) == [(8, 9), (12, 12)]
        assert await bookie.list_ledgers(13) == [], "a fence alone is not an entry"
        await subject.retire(8)
        assert await bookie.list_ledgers() == [(7, 7), (9, 9), (12, 12)]

    run(check)


@needs(BookieCapability.TELLS_OUTLINES)
def test_ledgers_have_outlines(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        assert await bookie.outlines([]) == []
        await bookie.add(LEDGER, KEY, run_of(3, 4, 5))
        assert await bookie.outlines([9, LEDGER]) == [NOTHING, Outline(3, 5, 3)]
        await bookie.add(LEDGER, KEY, run_of(5, 9))
        assert await bookie.outlines([LEDGER]) == [Outline(3, 9, 4)]
        await bookie.add(LEDGER, KEY, run_of(6, 7, 8))
        await bookie.read_tail(20, fence_key=KEY)
        found = await bookie.outlines([LEDGER, 20, LEDGER])
        assert found == [Outline(3, 9, 7), NOTHING, Outline(3, 9, 7)]
        with pytest.raises(InvalidRequestError, match="1001 ledgers"):
            await bookie.outlines(range(1001))

    run(check)


def test_entries_may_arrive_late_and_out_of_order(run: Run) -> None:
    async def check(subject: Subject) -> None:
        await subject.bookie.add(LEDGER, KEY, run_of(5, 6))
        await subject.bookie.add(LEDGER, KEY, run_of(0, 1))
        assert ids(await subject.bookie.read(LEDGER, 0, 9)) == [0, 1, 5, 6]
        tail = await subject.bookie.read_tail(LEDGER)
        assert tail.frame == frame(6)

    run(check)


def test_negative_answers(run: Run) -> None:
    async def check(subject: Subject) -> None:
        with pytest.raises(ABSENT):
            await subject.bookie.read(LEDGER, 0, 0)
        assert await subject.bookie.list_entries(LEDGER) == []
        await subject.bookie.add(LEDGER, KEY, run_of(0))
        with pytest.raises(NoSuchEntryError) as raised:
            await subject.bookie.read(LEDGER, 1, 5)
        assert (raised.value.ledger, raised.value.entry) == (LEDGER, 1)

    run(check)
