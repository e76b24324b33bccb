"""A gap is what is lost: not what a reader cannot see for now, nor what was trimmed meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from quire.errors import PositionTrimmedError, StoreUnavailableError
from quire.log.gap import PATIENCE_SECONDS, Gap
from quire.log.position import Position, Record
from quire.log.reader import LogReader
from quire.metastore.layout import ledger_path
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


def test_bookies_that_stay_away_are_a_gap() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            cut = Cut(cluster)
            await cut.write()
            async with await cut.reader(lambda: None) as reader:
                await cut.read(reader)
            assert [(each.first, each.end) for each in cut.gaps] == [
                (Position(2, 0, 0), Position(3, 0, 0))
            ]
            assert "hooked" in cut.gaps[0].reason

    run(main)
