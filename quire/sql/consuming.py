"""Each record of a log into a SQL database exactly once: `quire.sql.consume`.

    elected → load the place → read from there → move and effects in one transaction → … → again

Whatever fails, the next attempt begins with the place in the database: no other memory counts.
The election only decides which process tries; a process that is late fails at its move.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from quire.client import SESSION_SECONDS, Client
from quire.election.leadership import Leadership
from quire.log.records.keyring import Keyring
from quire.log.records.position import BEGINNING, Record, Start
from quire.sql.adapters import async_target
from quire.sql.feed import RECORDS, SECONDS, TransactionLimits
from quire.sql.job import Attempts, Job, OnCommit, first_place, open_steps
from quire.sql.places import TABLE, Move
from quire.sql.port import AsyncTarget
from quire.tracing.spans import processing

Apply: TypeAlias = Callable[[Any, Sequence[Record]], Awaitable[None]]
"""Applies records within the transaction of a handle."""


async def consume(
    client: Client,
    log: str,
    connection: Any,
    apply: Apply,
    *,
    consumer: str,
    start: Start = BEGINNING,
    follow: bool = True,
    records: int = RECORDS,
    seconds: float = SECONDS,
    fail_on_data_loss: bool = True,
    table: str = TABLE,
    session_timeout: float = SESSION_SECONDS,
    password: bytes = b"",
    keyring: Keyring | None = None,
    on_commit: OnCommit | None = None,
) -> int:
    """Apply each record of a log to a SQL database exactly once.

        async def apply(connection, records):
            for record in records:
                await connection.execute("INSERT INTO orders VALUES (%s)", (record.payload,))

        await quire.sql.consume(client, "orders", connection, apply, consumer="billing")

    The consumer's place is a row of a table in the same database. A transaction moves the row, runs
    `apply`, and commits both.

    Any number of processes may run the same consumer: one is elected and works, the others wait to
    take over. After a lost connection, a deadlock or a takeover the consumer goes on from its row.

    Args:
        client: a client of the cluster.
        log: the log's name.
        connection: the database: a `psycopg.AsyncConnection` or a coroutine function that makes
            one, an `AsyncEngine` or `async_sessionmaker` of SQLAlchemy, or an `AsyncTarget`.
        apply: a coroutine function of a handle and the records. The handle is the connection, or
            SQLAlchemy's connection or session. It neither commits nor rolls back.
        consumer: the consumer's name. Its place is kept under it and the log's name.
        start: where a new consumer begins, as in `read_log`.
        follow: wait for more records until the log is sealed. Without it, stop at the end.
        records: records of one transaction at most.
        seconds: how long a transaction waits for more records after its first one.
        fail_on_data_loss: raise if records were trimmed or lost before the consumer had them.
            Without it, a warning counts them, and the consumer goes on after them.
        table: the table of places, which is created if it is missing.
        session_timeout: seconds without a heartbeat after which another process takes over.
        password: the log's password.
        keyring: the keys of an encrypted log.
        on_commit: called with a `Progress` after each commit.

    Returns:
        How many records were applied.

    Raises:
        RecordsMissingError: records were trimmed before the consumer had them.
        LogReplacedError: the log was deleted and recreated: the row is of another log. Delete the
            row, and the effects of the other log, to begin anew.
        TransactionEndedError: `apply` committed or rolled back.
        ConfigurationError, UnsupportedError: an argument or the database cannot work.
        Exception: what `apply` raises, with a note that names the records. Nothing of them was
            written.
        QuireError: the errors of `read_log`; a follower retries errors that time mends.

    Cancellation: rolls back the transaction that is open, and resigns.

    Guarantees: the table is what `apply` makes of a prefix of the log, in order, each record once:
        after any crash of any process, and when a process that was paused goes on.
    """
    job = Job(
        *(log, consumer, start, follow, TransactionLimits(records, seconds), fail_on_data_loss),
        *(session_timeout, password, keyring, on_commit),
    )
    target = async_target(connection, table)
    attempts = Attempts(job)
    try:
        while True:
            try:
                await target.prepare()
                election = client.election(job.election, session_timeout=session_timeout)
                async with election.lead() as leadership:
                    await _lead(client, job, target, apply, leadership, attempts)
                return attempts.total
            except Exception as error:
                pause = attempts.pause_after(error, is_transient=target.is_transient(error))
            await asyncio.sleep(pause)
    finally:
        await target.close()


async def _lead(
    client: Client,
    job: Job,
    target: AsyncTarget,
    apply: Apply,
    leadership: Leadership,
    attempts: Attempts,
) -> None:
    """Consume until the log ends, under one leadership and from one place."""
    place = await target.load(job.consumer, job.log)
    if place is None and (place := await first_place(client, job)) is not None:
        async with target.transaction(Move(job.consumer, job.log, None, place)):
            pass
    async with open_steps(client, job, place, leadership) as steps:
        while (step := await steps.next()) is not None:
            traced = processing(client._handles.meter.spans, job.log, step.records, job.consumer)
            with traced:
                async with target.transaction(step.move) as handle:
                    try:
                        await apply(handle, step.records)
                    except Exception as error:
                        job.blame(error, step.records)
                        raise
            if job.on_commit is not None:
                job.on_commit(job.progress(step, attempts.total))
            attempts.done(len(step.records))
