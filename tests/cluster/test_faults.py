"""Real processes, real disks, real signals: nothing acknowledged is lost, and fences hold."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from quire.client import Client
from quire.cluster import LocalCluster, ProcessState
from quire.connection import connect
from quire.errors import (
    BookieUnavailableError,
    ConfigurationError,
    LedgerClosedError,
    LedgerFencedError,
    OutcomeUnknownError,
)
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import Replication
from tests.support.command import is_running, started

WAIT_SECONDS = 60.0
OPTIONS = LedgerOptions(request_timeout=2.0, append_timeout=20.0)


@asynccontextmanager
async def running(directory: Path, bookies: int) -> AsyncIterator[tuple[LocalCluster, Client]]:
    async with (
        asyncio.timeout(WAIT_SECONDS),
        LocalCluster(directory, bookies) as cluster,
        connect(cluster.store_uri, options=OPTIONS) as client,
    ):
        yield cluster, client


def test_append_read_and_tail(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, 3) as (_, client):
            log = await client.open_log("orders")
            reader = await client.read_log("orders", follow=True)
            position, offset = await log.append(b"first")
            record = await anext(reader)
            assert (record.position, record.offset) == (position, offset)
            assert (record.payload, record.epoch) == (b"first", 1)
            await log.append_many([b"second", b"third"])
            assert [(await anext(reader)).payload for _ in range(2)] == [b"second", b"third"]
            await reader.close()
            await log.close()
            everything = [each.payload async for each in await client.read_log("orders")]
            assert everything == [b"first", b"second", b"third"]

    asyncio.run(main())


def test_a_killed_bookie_is_replaced_while_writing(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, 4) as (cluster, client):
            writer = await client.create_ledger(Replication(3, 3, 2))
            await writer.append_many([b"before"] * 10)
            victim = cluster.index_of(writer._metadata.last_fragment.bookies[0])
            pending = [await writer.submit(b"%d" % number) for number in range(500)]
            cluster.kill(victim)
            await asyncio.gather(*pending)
            while len(writer._metadata.fragments) == 1:
                await writer.append(b"more")
            await writer.close()
            reader = await client.open_ledger(writer.ledger)
            payloads = [entry.payload async for entry in reader.read()]
            assert payloads[10:510] == [b"%d" % number for number in range(500)]
            assert cluster.state(victim) is ProcessState.EXITED

    asyncio.run(main())


def test_a_paused_bookie_stops_nobody(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, 3) as (cluster, client):
            writer = await client.create_ledger(Replication(3, 3, 2))
            cluster.pause(1)
            assert await writer.append_many([b"x"] * 100) == range(100)
            cluster.resume(1)
            await writer.close()
            reader = await client.open_ledger(writer.ledger)
            assert len([entry async for entry in reader.read()]) == 100

    asyncio.run(main())


def test_killing_every_bookie_loses_nothing_acknowledged(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, 3) as (cluster, client):
            writer = await client.create_ledger(Replication(3, 3, 2))
            pending = [await writer.submit(b"%d" % number) for number in range(2_000)]
            await pending[500]
            for index in range(3):
                cluster.kill(index)
            acknowledged = sum(
                not isinstance(outcome, BaseException)
                for outcome in await asyncio.gather(*pending, return_exceptions=True)
            )
            assert acknowledged > 500
            writer.abandon()
            await asyncio.gather(*(cluster.restart(index) for index in range(3)))
            payloads = await read_anew(cluster, writer.ledger)
            assert len(payloads) >= acknowledged
            assert payloads == [b"%d" % number for number in range(len(payloads))]

    asyncio.run(main())


def test_a_fence_survives_a_crash_of_every_bookie(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, 3) as (cluster, client):
            writer = await client.create_ledger(Replication(3, 3, 2))
            await writer.append(b"kept")
            async with connect(cluster.store_uri, options=OPTIONS) as other:
                reader = await other.open_ledger(writer.ledger)
                assert [entry.payload async for entry in reader.read()] == [b"kept"]
            for index in range(3):
                cluster.kill(index)
            await asyncio.gather(*(cluster.restart(index) for index in range(3)))
            # Closed when the writer, looking for another ensemble, has read it in the metadata.
            with pytest.raises((LedgerFencedError, LedgerClosedError, OutcomeUnknownError)):
                await writer.append(b"too late")
            assert await read_anew(cluster, writer.ledger) == [b"kept"]

    asyncio.run(main())


async def read_anew(cluster: LocalCluster, ledger: int) -> list[bytes]:
    """Read a ledger as a new client: one that was there before may not have heard yet where bookies
    that were restarted listen now.
    """
    async with connect(cluster.store_uri, options=OPTIONS) as client:
        reader = await client.open_ledger(ledger)
        return [entry.payload async for entry in reader.read()]


def test_a_death_is_reported_and_a_damaged_journal_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, 3) as (cluster, client):
            writer = await client.create_ledger(Replication(3, 3, 2))
            for _ in range(20):  # each synced by itself, so that valid records follow the damage
                await writer.append(b"x" * 1000)
            await writer.close()
            cluster.kill(0)
            await asyncio.to_thread(damage_journal, cluster.bookie_directory(0))
            with pytest.raises(BookieUnavailableError, match=r"code 9.*corrupt"):
                await cluster.restart(0)
            death = await cluster.next_death()
            assert (death.index, death.exit_code) == (0, 9)

    asyncio.run(main())


def damage_journal(directory: Path) -> None:
    """Flip a byte in the middle of what was written."""
    for path in sorted((directory / "journal").iterdir()):
        data = bytearray(path.read_bytes())
        where = data.find(b"x" * 1000)
        if where >= 0:
            data[where + 500] ^= 0xFF
            path.write_bytes(data)
            return
    pytest.fail("no journal segment holds the entries")


def test_a_copied_directory_makes_the_original_stop(tmp_path: Path) -> None:
    """Two directories with one identity: one would answer for data that only the other has."""

    async def main() -> None:
        async with running(tmp_path / "cluster", 1) as (cluster, _):
            original, copy = cluster.bookie_directory(0), tmp_path / "copy"
            cluster.kill(0)
            await asyncio.to_thread(shutil.copytree, original, copy)
            await cluster.restart(0)
            with started("bookie", "serve", str(copy), store=cluster.store_uri):
                death = await cluster.next_death()
            assert (death.index, death.exit_code) == (0, 9)
            assert "belongs to" in death.last_words

    asyncio.run(main())


PARENT = """
import asyncio, sys
from pathlib import Path
from quire.cluster import LocalCluster

async def main():
    async with LocalCluster(Path(sys.argv[1]), 2) as cluster:
        print(cluster.pid(0), cluster.pid(1), flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["kill", "terminate"])
def test_no_bookie_outlives_its_parent(tmp_path: Path, how: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(is_running, pids))
        getattr(parent, how)()
    finally:
        parent.kill()
        parent.communicate()

    async def gone() -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while any(map(is_running, pids)):  # noqa: ASYNC110 - not our children
                await asyncio.sleep(0.05)

    asyncio.run(gone())


def test_stopping_ends_every_process_and_keeps_the_data(tmp_path: Path) -> None:
    async def write() -> list[int]:
        async with running(tmp_path, 3) as (cluster, client):
            async with await client.open_log("orders") as log:
                await log.append(b"kept")
            return [cluster.pid(index) for index in range(3)]

    async def read() -> list[bytes]:
        async with running(tmp_path, 3) as (_, client):
            return [record.payload async for record in await client.read_log("orders")]

    assert not any(map(is_running, asyncio.run(write())))
    assert asyncio.run(read()) == [b"kept"]


def test_a_temporary_cluster_is_removed_and_is_not_started_twice() -> None:
    async def main() -> Path:
        async with LocalCluster(bookies=1) as cluster:
            assert cluster.directory.is_dir()
            with pytest.raises(ConfigurationError, match="already runs"):
                await cluster.start()
            assert cluster.state(0) is ProcessState.RUNNING, "it was left alone"
        await cluster.start()
        await cluster.stop()
        return cluster.directory

    assert not asyncio.run(main()).exists()
