"""A consumer applies each record once: through crashes, takeovers, trims and lost answers.

The database is the one of tests/sql/memory_target.py, and time is virtual.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

import quire.sql
from quire.client import Client
from quire.errors import (
    ConfigurationError,
    LogReplacedError,
    PositionTrimmedError,
    RecordsMissingError,
)
from quire.log.records.position import BEGINNING, LATEST, Record
from quire.sql import Move, Progress, consuming
from quire.sql.feed import BYTES_MAX, TransactionLimits
from quire.sql.job import Attempts, Job
from tests.sql.memory_target import MemoryDatabase, MemoryTarget
from tests.support.log_cluster import LogCluster, eventually, numbered, whole_client

LOG = "orders"


async def apply(rows: list[bytes], records: Sequence[Record]) -> None:
    rows += [record.payload for record in records]


async def add(client: Client, payloads: Sequence[bytes]) -> None:
    """Append records, each in an entry of its own, and let every reader see them."""
    async with await client.open_log(LOG) as log:
        for payload in payloads:
            await log.append(payload)


async def filled(client: Client, count: int) -> None:
    await add(client, numbered(0, count))


async def sealed(client: Client, payload: bytes) -> None:
    """Append the last record of the log."""
    log = await client.open_log(LOG)
    await log.append(payload)
    await log.seal()


async def drain(client: Client, target: MemoryTarget, **options: Any) -> int:
    """Consume what is there."""
    options.setdefault("consumer", "billing")
    return await quire.sql.consume(client, LOG, target, apply, follow=False, **options)


async def test_each_record_is_applied_once_in_order(cluster: LogCluster) -> None:
    client, target = whole_client(cluster), MemoryTarget(MemoryDatabase())
    await filled(client, 7)
    assert await drain(client, target, records=3) == 7
    assert target.database.rows == numbered(0, 7)
    assert target.database.commits == 3
    assert await drain(client, target) == 0
    await add(client, [b"7"])
    assert await drain(client, target) == 1
    assert target.database.rows == numbered(0, 8)


async def test_consumers_of_two_names_have_places_of_their_own(cluster: LogCluster) -> None:
    client, target = whole_client(cluster), MemoryTarget(MemoryDatabase())
    await filled(client, 2)
    await drain(client, target)
    await drain(client, target, consumer="shipping")
    assert target.database.rows == [b"0", b"1", b"0", b"1"]


async def test_a_follower_commits_what_there_is_after_a_while(cluster: LogCluster) -> None:
    client, target = whole_client(cluster), MemoryTarget(MemoryDatabase())
    seen: list[Progress] = []
    work = quire.sql.consume(
        client, LOG, target, apply, consumer="billing", seconds=1.0, on_commit=seen.append
    )
    following = asyncio.create_task(work)  # before the log exists
    await filled(client, 3)
    await eventually(lambda: len(target.database.rows) == 3)
    await sealed(client, b"3")
    assert await following == 4
    assert target.database.rows == numbered(0, 4)
    assert (seen[-1].total, seen[-1].next_offset, seen[-1].consumer) == (4, 4, "billing")


@pytest.mark.parametrize("answer_lost", [False, True])
async def test_after_a_failed_commit_the_row_says_what_was_done(
    cluster: LogCluster, answer_lost: bool, caplog: pytest.LogCaptureFixture
) -> None:
    client, target = whole_client(cluster), MemoryTarget(MemoryDatabase())
    await filled(client, 5)
    if answer_lost:
        target.fail_after = 2
    else:
        target.fail_before = 2
    with caplog.at_level(logging.WARNING, "quire.sql"):
        await drain(client, target, records=2)
    assert target.database.rows == numbered(0, 5)
    assert caplog.text.count("goes on from its last commit") == 2


async def test_an_error_of_apply_names_the_records_and_leaves_nothing(cluster: LogCluster) -> None:
    client, target = whole_client(cluster), MemoryTarget(MemoryDatabase())
    await filled(client, 5)

    async def fails(rows: list[bytes], records: Sequence[Record]) -> None:
        await apply(rows, records)
        if records[0].offset == 2:
            raise ZeroDivisionError("poison")

    with pytest.raises(ZeroDivisionError, match="poison") as told:
        await quire.sql.consume(
            client, LOG, target, fails, consumer="billing", follow=False, records=2
        )
    assert "offsets 2 to 3 were not applied" in told.value.__notes__[0]
    assert target.database.rows == numbered(0, 2)
    assert await drain(client, target) == 3


async def test_one_of_two_consumers_works_and_the_other_takes_over(cluster: LogCluster) -> None:
    client, database = whole_client(cluster), MemoryDatabase()
    await filled(client, 2)
    workers = [
        asyncio.create_task(
            quire.sql.consume(
                whole_client(cluster), LOG, MemoryTarget(database), apply, consumer="billing"
            )
        )
        for _ in range(2)
    ]
    await eventually(lambda: len(database.rows) == 2)
    leading = await client.election(f"sql:{LOG}:billing").leader()
    assert leading is not None
    workers[0].cancel()
    await asyncio.wait([workers[0]])
    await sealed(client, b"2")
    await workers[1]
    assert database.rows == numbered(0, 3)


async def test_a_paused_consumer_cannot_commit_after_another_went_on(cluster: LogCluster) -> None:
    """It read its records while it led, and holds them when its successor has applied them."""
    client, database = whole_client(cluster), MemoryDatabase()
    await filled(client, 4)

    class Slow(MemoryTarget):
        """Stops before its first transaction, as a paused process does."""

        stopped = asyncio.Event()
        resumed = asyncio.Event()

        @asynccontextmanager
        async def transaction(self, move: Move) -> AsyncIterator[list[bytes]]:
            self.stopped.set()
            await self.resumed.wait()
            async with super().transaction(move) as rows:
                yield rows

    work = quire.sql.consume(
        client, LOG, Slow(database), apply, consumer="billing", records=2, follow=False
    )
    paused = asyncio.create_task(work)
    await Slow.stopped.wait()
    # The successor stands in another election, as if the first one's session had ended.
    other = Job(LOG, "billing", follow=False)
    await go_on(client, database, other)
    assert database.rows == numbered(0, 4)
    Slow.resumed.set()
    assert await paused == 0
    assert database.rows == numbered(0, 4)


async def go_on(client: Client, database: MemoryDatabase, job: Any) -> None:
    """Consume under a leadership of another election."""
    async with client.election("another").lead() as leadership:
        target = MemoryTarget(database)
        await consuming._lead(client, job, target, apply, leadership, Attempts(job))


async def test_a_new_consumer_may_begin_at_the_end(cluster: LogCluster) -> None:
    client, target = whole_client(cluster), MemoryTarget(MemoryDatabase())
    await filled(client, 3)
    assert await drain(client, target, start=LATEST) == 0
    await add(client, [b"3"])  # while no consumer runs
    assert await drain(client, target, start=LATEST) == 1
    assert target.database.rows == [b"3"]


async def test_a_new_consumer_may_begin_at_an_offset(cluster: LogCluster) -> None:
    client, target = whole_client(cluster), MemoryTarget(MemoryDatabase())
    await filled(client, 3)
    assert await drain(client, target, start=1) == 2


async def trimmed_ahead(client: Client, target: MemoryTarget) -> None:
    """A log of 6 records whose consumer has had 2, and whose first 4 are trimmed."""
    await filled(client, 2)
    await drain(client, target)
    await add(client, numbered(2, 4))
    await client.trim_log(LOG, 4)


async def test_records_that_were_trimmed_unseen_are_an_error(cluster: LogCluster) -> None:
    client, target = whole_client(cluster), MemoryTarget(MemoryDatabase())
    await trimmed_ahead(client, target)
    with pytest.raises(RecordsMissingError, match=r"needs offset 2 .*fail_on_data_loss=False"):
        await drain(client, target)
    assert target.database.rows == numbered(0, 2)


async def test_records_that_were_trimmed_unseen_are_counted(
    cluster: LogCluster, caplog: pytest.LogCaptureFixture
) -> None:
    client, target = whole_client(cluster), MemoryTarget(MemoryDatabase())
    await trimmed_ahead(client, target)
    assert await drain(client, target, fail_on_data_loss=False) == 2
    assert target.database.rows == [b"0", b"1", b"4", b"5"]
    assert "leaves 2 records out: they are gone (offsets 2 to 3)" in caplog.text


async def test_a_new_consumer_begins_behind_a_trim(cluster: LogCluster) -> None:
    client, target = whole_client(cluster), MemoryTarget(MemoryDatabase())
    await trimmed_ahead(client, target)
    with pytest.raises(PositionTrimmedError):
        await drain(client, target, consumer="new", start=1)
    kept = {"consumer": "new", "fail_on_data_loss": False}
    assert await drain(client, target, start=1, **kept) == 2
    assert await drain(client, target, consumer="newer", start=BEGINNING) == 2


async def test_a_recreated_log_is_not_taken_for_the_old_one(cluster: LogCluster) -> None:
    client, target = whole_client(cluster), MemoryTarget(MemoryDatabase())
    await filled(client, 3)
    await drain(client, target)
    await client.delete_log(LOG)
    await filled(client, 9)
    for kept in (True, False):
        with pytest.raises(LogReplacedError):
            await drain(client, target, fail_on_data_loss=kept)
    assert target.database.rows == numbered(0, 3)


async def test_large_records_fill_a_transaction(cluster: LogCluster) -> None:
    client, target = whole_client(cluster), MemoryTarget(MemoryDatabase())
    await add(client, [bytes(BYTES_MAX // 16)] * 40)
    await drain(client, target)
    assert target.database.commits == 3


async def test_what_cannot_work_is_named(cluster: LogCluster) -> None:
    client, target = whole_client(cluster), MemoryTarget(MemoryDatabase())
    with pytest.raises(ConfigurationError, match="a consumer needs a name"):
        await drain(client, target, consumer="")
    with pytest.raises(ConfigurationError, match="1 record or more, not 0"):
        await drain(client, target, records=0)
    with pytest.raises(ConfigurationError, match="waits 0 s or longer"):
        TransactionLimits(seconds=float("nan"))
    with pytest.raises(ConfigurationError, match="'a-b' is not a table's name"):
        await drain(client, target, table="a-b")
    with pytest.raises(ConfigurationError, match="is not a database for quire"):
        await quire.sql.consume(client, LOG, object(), apply, consumer="billing")
