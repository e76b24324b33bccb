"""The examples do what they say, on a cluster in memory and with faults."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

import quire
import quire.sync
from examples import into_sqlite, primary_backup, wal_service
from quire.errors import DeposedError, LogReplacedError
from quire.testing import MemoryCluster
from tests.support.virtual import virtually

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("[a-z]*.py"))


@pytest.fixture
def cluster() -> Iterator[MemoryCluster]:
    with MemoryCluster() as made:
        yield made


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short(example: Path) -> None:
    assert len(example.read_text(encoding="utf-8").splitlines()) < 80


def test_there_are_five_examples() -> None:
    assert len(EXAMPLES) == 5


def test_balances_survive_the_process_and_a_bookie(cluster: MemoryCluster) -> None:
    with quire.sync.connect(cluster.store_uri) as client:
        first = wal_service.Accounts(client)
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda _: first.change("alice", 1), range(50)))
        cluster.kill(0)
        assert first.change("alice", 10) == 60
        with pytest.raises(ValueError, match="alice has 60, not 70"):
            first.change("alice", -70)

        second = wal_service.Accounts(client)  # the first never closed its log
        assert second.change("alice", 0) == 60
        with pytest.raises(DeposedError):
            first.change("alice", 1)
        second.close()


def test_a_backup_continues_where_the_primary_ended(cluster: MemoryCluster) -> None:
    async def scene() -> None:
        async with quire.connect(cluster.store_uri) as one, quire.connect(cluster.store_uri) as two:
            anna, ben = primary_backup.Replica(one, "anna"), primary_backup.Replica(two, "ben")
            following = [asyncio.create_task(each.follow()) for each in (anna, ben)]
            leading = asyncio.create_task(anna.lead(0.1, 2.0))
            await ben.reached(5)
            successor = asyncio.create_task(ben.lead(0.1, 2.0))
            leading.cancel()
            await asyncio.wait([leading])
            while not ben.counters["ben"]:
                await ben.reached(ben.applied + 1)
            successor.cancel()
            await asyncio.wait([successor])
            await anna.reached(ben.applied)
            assert anna.counters == ben.counters
            assert anna.counters["anna"] >= 5
            for task in following:
                task.cancel()
            await asyncio.wait(following)

    virtually(scene)


@pytest.fixture
def orders(cluster: MemoryCluster) -> Iterator[Callable[[bytes], object]]:
    with quire.sync.connect(cluster.store_uri) as client:
        yield lambda record: write(client, record)


def write(client: quire.sync.SyncClient, record: bytes) -> None:
    with client.open_log("orders") as log:
        log.append(record)


def rows(path: Path) -> list[tuple[int, bytes]]:
    with closing(sqlite3.connect(path)) as opened:
        return opened.execute("SELECT at_offset, payload FROM rows ORDER BY at_offset").fetchall()


def test_a_second_run_continues_after_the_last_row(
    cluster: MemoryCluster, orders: Callable[[bytes], object], tmp_path: Path
) -> None:
    path = tmp_path / "orders.db"
    for each in (b"a", b"b", b"c"):
        orders(each)
        into_sqlite.copy(cluster.store_uri, "orders", str(path), follow=False)
        into_sqlite.copy(cluster.store_uri, "orders", str(path), follow=False)
    assert rows(path) == [(0, b"a"), (1, b"b"), (2, b"c")]


CRASH = """
CREATE TRIGGER crash BEFORE INSERT ON place WHEN (SELECT count(*) FROM rows) = 2
BEGIN SELECT RAISE(ABORT, 'the power is off'); END
"""


def test_a_crash_between_row_and_place_leaves_neither(
    cluster: MemoryCluster, orders: Callable[[bytes], object], tmp_path: Path
) -> None:
    path = tmp_path / "orders.db"
    for each in (b"a", b"b", b"c"):
        orders(each)
    with into_sqlite.database(str(path)) as opened:
        opened.executescript(CRASH)
    with pytest.raises(sqlite3.IntegrityError, match="the power is off"):
        into_sqlite.copy(cluster.store_uri, "orders", str(path), follow=False)
    assert rows(path) == [(0, b"a")]
    with into_sqlite.database(str(path)) as opened:
        opened.execute("DROP TRIGGER crash")
    into_sqlite.copy(cluster.store_uri, "orders", str(path), follow=False)
    assert rows(path) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_rows_of_another_log_of_the_name_are_refused(
    cluster: MemoryCluster, orders: Callable[[bytes], object], tmp_path: Path
) -> None:
    path = tmp_path / "orders.db"
    orders(b"a")
    into_sqlite.copy(cluster.store_uri, "orders", str(path), follow=False)
    with quire.sync.connect(cluster.store_uri) as client:
        client.delete_log("orders")
        write(client, b"other")
    with pytest.raises(LogReplacedError):
        into_sqlite.copy(cluster.store_uri, "orders", str(path), follow=False)
    assert rows(path) == [(0, b"a")]
