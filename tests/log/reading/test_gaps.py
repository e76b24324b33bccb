"""A gap is what is lost: not what a reader cannot see for now, nor what was trimmed meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from quire.errors import (
    BookieUnavailableError,
    NoSuchEntryError,
    NoSuchLedgerError,
    PositionTrimmedError,
    StoreUnavailableError,
    UnreadableError,
)
from quire.log.manifest.manifest import Job
from quire.log.manifest.options import LogOptions
from quire.log.reading.gaps import PATIENCE_SECONDS, Gap
from quire.log.reading.reader import LogReader
from quire.log.records.batch import encode_batch
from quire.log.records.position import Position, Record
from quire.metastore.layout import ledger_path
from tests.support.interrupted import cancelled_at
from tests.support.log_cluster import (
    NAME,
    Client,
    LogCluster,
    append_all,
    numbered,
    refuse,
    run,
)
from tests.support.memory_cluster import down


class Cut:
    """A log of two closed segments, and a reader who opens the second and then sees no bookie."""

    def __init__(self, cluster: LogCluster) -> None:
        self.cluster = cluster
        self.client = cluster.new_client()
        self.gaps: list[Gap] = []
        self.found: list[Record] = []

    async def write(self) -> None:
        async with await self.cluster.new_client().open(batch_records=1) as log:
            await append_all(log, numbered(0, 5))
            await log.roll()
            await append_all(log, numbered(5, 5))

    async def reader(self, then: Callable[[], None], *, follow: bool = False) -> LogReader:
        """Return a reader; as it opens the second segment its bookies go, and `then` is called."""
        second = (await self.client.manifest()).segments[1].ledger
        is_cut = False

        async def after(method: str, path: str) -> None:
            nonlocal is_cut
            if (method, path, is_cut) == ("get", ledger_path(second), False):
                is_cut = True
                for bookie in self.cluster.bookies.values():
                    bookie.before = down()
                then()

        self.client.store.after = after
        return await self.client.logs.read(NAME, on_gap=self.gaps.append, follow=follow)

    def mend(self) -> None:
        for bookie in self.cluster.bookies.values():
            bookie.before = nothing
        self.client.store.before = nothing

    async def read(self, reader: LogReader) -> None:
        async for record in reader:
            self.found.append(record)


async def nothing(*_: object) -> None: ...


@pytest.mark.parametrize("follow", [False, True])
def test_who_is_cut_off_leaves_nothing_out(follow: bool) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            cut = Cut(cluster)
            await cut.write()

            def isolate() -> None:
                cut.client.store.before = refuse()
                later = asyncio.get_running_loop().call_later
                later(PATIENCE_SECONDS + 5.0, cut.mend)

            async with await cut.reader(isolate, follow=follow) as reader:
                while len(cut.found) < 10:
                    try:
                        cut.found.append(await anext(reader))
                    except StoreUnavailableError:
                        assert not follow
            assert [each.payload for each in cut.found] == numbered(0, 10)
            assert cut.gaps == []

    run(main)


def test_what_is_trimmed_while_it_cannot_be_read_is_no_gap() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            cut = Cut(cluster)
            await cut.write()
            trims: list[asyncio.Task[None]] = []

            async def trim(client: Client) -> None:
                await asyncio.sleep(PATIENCE_SECONDS / 2)
                await client.logs.trim(NAME, Position(3, 0, 0))

            def begin() -> None:
                trims.append(asyncio.create_task(trim(cluster.new_client())))

            async with await cut.reader(begin) as reader:
                with pytest.raises(PositionTrimmedError):
                    await cut.read(reader)
            assert cut.gaps == []
            await asyncio.gather(*trims)

    run(main)


LOST = 3


async def write_and_lose(cluster: LogCluster) -> Client:
    """Twelve records in one closed segment, of which one is nonsense. Whoever reads them reads
    ahead, and has something to wait for when he leaves off.
    """
    cluster.options = replace(cluster.options, read_ahead_bytes=800)
    client = cluster.new_client()
    ingest = client.logs.ingest(NAME)
    part = await ingest.create_part("job", LogOptions())
    for number in range(12):
        batch = encode_batch([b"%d" % number], first_offset=number, epoch=1, timestamp_ms=0)
        await part.append(b"nonsense" if number == LOST else batch)
    await part.close()
    await ingest.ingest([part.ledger], Job("job", 0), remember=True)
    return client


def reading_ends(wait: int) -> bool:
    """Cancel a reader as it waits for the n-th time, and go on; False when it was done before."""
    ended: list[bool] = []

    async def main() -> None:
        async with LogCluster() as cluster:
            client = await write_and_lose(cluster)
            gaps: list[Gap] = []
            found: list[Record] = []
            reader = await client.logs.read(NAME, on_gap=gaps.append)

            async def read() -> None:
                async for record in reader:
                    found.append(record)  # noqa: PERF401 what came before counts

            try:
                await cancelled_at(wait, read())
            except asyncio.CancelledError:
                ended.append(True)
                await read()
            assert [each.offset for each in found] == [*range(LOST), *range(LOST + 1, 12)]
            assert [each.first.entry for each in gaps] == [LOST]
            await reader.close()

    run(main)
    return bool(ended)


def test_whoever_is_cancelled_at_a_gap_skips_nothing_and_is_told_once() -> None:
    waits = 0
    while reading_ends(waits + 1):
        waits += 1
    assert waits >= 8  # 10 by Python 3.11, 9 by 3.13


def test_whoever_stops_at_a_gap_goes_on_behind_it() -> None:
    """Told of a gap, the application has its task cancelled."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client = await write_and_lose(cluster)
            found: list[int] = []
            gaps: list[Gap] = []
            tasks: list[asyncio.Task[None]] = []

            def stop(gap: Gap) -> None:
                gaps.append(gap)
                tasks[0].cancel()

            reader = await client.logs.read(NAME, on_gap=stop)

            async def read() -> None:
                async for record in reader:
                    found.append(record.offset)  # noqa: PERF401 what came before counts

            tasks.append(asyncio.create_task(read()))
            await asyncio.gather(*tasks, return_exceptions=True)
            assert tasks[0].cancelled()
            await read()
            assert found == [*range(LOST), *range(LOST + 1, 12)]
            assert len(gaps) == 1

    run(main)


@pytest.mark.parametrize(
    "error", [RuntimeError("no"), StoreUnavailableError("mine", "no"), NoSuchLedgerError(9)]
)
@pytest.mark.parametrize("follow", [False, True])
def test_whoever_refuses_a_gap_stays_in_front_of_it(error: Exception, follow: bool) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = await write_and_lose(cluster)
            told: list[Gap] = []

            def refuse_twice(gap: Gap) -> None:
                told.append(gap)
                if len(told) < 3:
                    raise error

            async with await client.logs.read(NAME, on_gap=refuse_twice, follow=follow) as reader:
                assert [(await anext(reader)).offset for _ in range(LOST)] == [*range(LOST)]
                for tries in (1, 2):
                    with pytest.raises(type(error)):
                        await anext(reader)
                    assert (reader.position.entry, len(told)) == (LOST, tries)
                left = [(await anext(reader)).offset for _ in range(LOST + 1, 12)]
                assert left == [*range(LOST + 1, 12)]
            assert told == [told[0]] * 3

    run(main)


@pytest.mark.parametrize("away", [1, 2, 3])
def test_records_that_are_merely_away_are_no_gap(away: int) -> None:
    """Bookies that are there have lost the entries; the copies are with those that are away."""

    async def main() -> None:
        async with LogCluster() as cluster:
            cut = Cut(cluster)
            await cut.write()
            second = (await cut.client.manifest()).segments[1].ledger
            bookies = list(cluster.bookies.values())
            for bookie in bookies[away:]:
                bookie.ledgers[second].frames.clear()

            def isolate() -> None:
                for bookie in bookies[away:]:
                    bookie.before = nothing

            async with await cut.reader(isolate) as reader:
                with pytest.raises((UnreadableError, NoSuchEntryError)):
                    await cut.read(reader)
                assert (len(cut.found), reader.position) == (5, Position(2, 0, 0))
                cut.mend()
                await cut.read(reader)
            assert [each.payload for each in cut.found] == numbered(0, 10)
            assert cut.gaps == []

    run(main)


def test_a_gap_ends_before_an_entry_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            cut = Cut(cluster)
            await cut.write()
            second = (await cut.client.manifest()).segments[1].ledger
            bookies = list(cluster.bookies.values())
            for bookie in bookies:
                for entry in (0, 1, 2) if bookie is not bookies[0] else (0, 1):
                    bookie.ledgers[second].frames.pop(entry)

            holder, is_away = bookies[0], True
            whole = holder.read

            async def read(ledger: int, first: int, last: int, **limits: Any) -> bytes:
                if is_away and (ledger, first) == (second, 2):
                    raise BookieUnavailableError("b0", "away")
                return await whole(ledger, first, last, **limits)

            monkeypatch.setattr(holder, "read", read)
            async with await cut.reader(cut.mend) as reader:
                with pytest.raises((UnreadableError, NoSuchEntryError)):
                    await cut.read(reader)
                assert [(each.first, each.end) for each in cut.gaps] == [
                    (Position(2, 0, 0), Position(2, 2, 0))
                ]
                is_away = False
                await cut.read(reader)
            assert [each.payload for each in cut.found] == numbered(0, 5) + numbered(7, 3)
            assert len(cut.gaps) == 1

    run(main)
