"""The law of the port `SegmentStore`, J1 to J7."""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import (
    HandleClosedError,
    InvalidRequestError,
    LedgerClosedError,
    LedgerFencedError,
    NoSuchEntryError,
    NoSuchLedgerError,
    QuireError,
    UnauthorizedError,
)
from quire.log.segment_store.port import SegmentOptions, SegmentSink, SegmentSource
from tests.contract.segments.subjects import Run, Subject

PASSWORD = b"secret"
WANTED = SegmentOptions(password=PASSWORD)
TAKEN = (LedgerFencedError, LedgerClosedError)


async def filled(subject: Subject, count: int) -> SegmentSink:
    sink = await subject.one.create(WANTED)
    for number in range(count):
        assert await sink.append(b"%d" % number) == number
    return sink


async def contents(source: SegmentSource) -> list[bytes]:
    return [entry.payload async for run in source.read_runs(0) for entry in run]


async def seal(subject: Subject, sink: SegmentSink) -> SegmentSource:
    return await subject.other.seal(sink.ledger, password=PASSWORD)


def test_entries_are_numbered_and_answered_in_order(run: Run) -> None:
    async def check(subject: Subject) -> None:
        sink = await subject.one.create(WANTED)
        answered: list[int] = []
        futures = [await sink.submit(b"%d" % number) for number in range(20)]
        for future in futures:
            future.add_done_callback(lambda done: answered.append(done.result()))
        assert await asyncio.gather(*futures) == list(range(20))
        await asyncio.sleep(0)
        assert answered == list(range(20))
        assert sink.last_pushed == 19
        await sink.close()

    run(check)


def test_a_sealed_segment_has_all_that_was_answered(run: Run) -> None:
    async def check(subject: Subject) -> None:
        sink = await filled(subject, 5)
        assert not sink.facts.is_sealed
        await sink.close()
        await sink.close()
        assert (sink.facts.last_entry, sink.facts.length) == (4, 5)
        async with await subject.other.open(sink.ledger, password=PASSWORD) as source:
            assert source.is_closed
            assert (source.facts.last_entry, source.facts.length) == (4, 5)
            assert await source.last_confirmed() == await source.last_acknowledged() == 4
            assert await contents(source) == [b"0", b"1", b"2", b"3", b"4"]
            assert (await source.read_entry(3)).payload == await source.read_head(3) == b"3"
            with pytest.raises(NoSuchEntryError):
                await source.read_entry(5)

    run(check)


def test_an_empty_segment_can_be_sealed(run: Run) -> None:
    async def check(subject: Subject) -> None:
        closed, taken = await filled(subject, 0), await filled(subject, 0)
        await closed.close()
        (await seal(subject, taken)).facts  # noqa: B018
        for sink in (closed, taken):
            async with await subject.one.open(sink.ledger, password=PASSWORD) as source:
                assert (source.facts.last_entry, source.facts.length) == (-1, 0)
                assert await contents(source) == []
        taken.abandon()

    run(check)


def test_a_seal_ends_the_sink_and_keeps_what_was_answered(run: Run) -> None:
    async def check(subject: Subject) -> None:
        sink = await filled(subject, 3)
        futures = [await sink.submit(b"late") for _ in range(3)]
        source = await seal(subject, sink)
        end = await source.last_confirmed()
        late = await asyncio.gather(*futures, return_exceptions=True)
        answered = [each for each in late if isinstance(each, int)]
        assert max([2, *answered]) <= end <= 5
        assert all(isinstance(each, (int, *TAKEN)) for each in late)
        with pytest.raises(TAKEN):
            await sink.append(b"later")
        with pytest.raises(TAKEN):
            await sink.close()
        sink.abandon()
        again = await seal(subject, sink)
        assert again.facts == source.facts
        assert (await contents(again))[:3] == [b"0", b"1", b"2"]

    run(check)


def test_a_segment_whose_sink_is_gone_is_open_until_it_is_sealed(run: Run) -> None:
    async def check(subject: Subject) -> None:
        sink = await filled(subject, 2)
        sink.abandon()
        with pytest.raises(QuireError):
            await sink.append(b"late")
        async with await subject.other.open(sink.ledger, password=PASSWORD) as source:
            assert not source.is_closed
            assert not source.facts.is_sealed
        async with await seal(subject, sink) as source:
            assert source.facts.last_entry == 1

    run(check)


def test_opening_does_not_disturb_the_sink(run: Run) -> None:
    async def check(subject: Subject) -> None:
        sink = await filled(subject, 2)
        async with await subject.other.open(sink.ledger, password=PASSWORD) as source:
            assert await source.last_acknowledged() == 1
            assert await contents(source) == [b"0", b"1"]
            with pytest.raises(InvalidRequestError):
                await source.read_entry(2)
            assert await sink.append(b"2") == 2
            assert await source.last_acknowledged() == 2
            source.confirm(2)
            assert (await source.read_entry(2)).payload == b"2"
        with pytest.raises(HandleClosedError):
            await source.read_entry(0)
        await sink.close()

    run(check)


def test_a_follower_gets_everything_and_ends_with_the_segment(run: Run) -> None:
    async def check(subject: Subject) -> None:
        sink = await filled(subject, 1)
        async with await subject.other.open(sink.ledger, password=PASSWORD) as source:

            async def follow() -> list[bytes]:
                return [entry.payload async for got in source.follow_runs(0) for entry in got]

            following = asyncio.create_task(follow())
            closed = asyncio.create_task(source.wait_closed())
            for number in range(1, 4):
                await sink.append(b"%d" % number)
                await asyncio.sleep(1)
            assert not following.done()
            assert not closed.done()
            await sink.close()
            assert await following == [b"0", b"1", b"2", b"3"]
            await closed
            with pytest.raises(NoSuchEntryError):
                await anext(source.follow_runs(6))

    run(check)


def test_a_deleted_segment_is_gone(run: Run) -> None:
    async def check(subject: Subject) -> None:
        sink = await filled(subject, 1)
        await sink.close()
        await subject.other.delete(sink.ledger)
        for attempt in (
            subject.one.open(sink.ledger, password=PASSWORD),
            subject.one.seal(sink.ledger, password=PASSWORD),
            subject.one.delete(sink.ledger),
        ):
            with pytest.raises(NoSuchLedgerError):
                await attempt

    run(check)


def test_a_password_is_asked_for(run: Run) -> None:
    async def check(subject: Subject) -> None:
        sink = await filled(subject, 1)
        for attempt in (subject.other.open(sink.ledger), subject.other.seal(sink.ledger)):
            with pytest.raises(UnauthorizedError):
                await attempt
        assert await sink.append(b"1") == 1
        await sink.close()

    run(check)


def test_ids_are_given_out_once(run: Run) -> None:
    async def check(subject: Subject) -> None:
        seen: set[int] = set()
        for turn in range(6):
            sink = await (subject.other if turn % 2 else subject.one).create(WANTED)
            assert sink.ledger not in seen
            seen.add(sink.ledger)
            await sink.close()
            if turn % 3 == 0:
                await subject.one.delete(sink.ledger)

    run(check)


def test_an_unwritten_segment_fits_until_it_is_taken(run: Run) -> None:
    async def check(subject: Subject) -> None:
        await subject.one.check_room(WANTED)
        sink = await subject.one.create(WANTED)
        assert subject.one.fits(sink, WANTED)
        await sink.close()

    run(check)


def test_a_watch_is_stirred_when_an_entry_can_be_read(run: Run) -> None:
    async def check(subject: Subject) -> None:
        sink = await filled(subject, 2)
        async with await subject.other.open(sink.ledger, password=PASSWORD) as source:
            await source.last_confirmed()
            watch = source.watch()
            await sink.append(b"2")
            await watch.wait()
            assert watch.is_stirred
            await watch.close()
            await watch.close()
        await sink.close()

    run(check)
