"""Blocking twins of `quire.sql`: consumers and relays over connections that block."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from quire import sql
from quire.client import SESSION_SECONDS
from quire.election.leadership import Leadership
from quire.log.manifest.options import LogOptions
from quire.log.records.keyring import Keyring
from quire.log.records.position import BEGINNING, Record, Start
from quire.sql.adapters import database
from quire.sql.adapters import target as target_of
from quire.sql.feed import RECORDS, SECONDS, TransactionLimits
from quire.sql.job import Attempts, Job, OnCommit, Progress, first_place, open_steps
from quire.sql.outbox import TABLE as OUTBOX
from quire.sql.places import TABLE, Move
from quire.sql.port import Target
from quire.sql.relaying import POLL_SECONDS
from quire.sql.relaying import RECORDS as ROWS
from quire.sql.threaded import ThreadedDatabase
from quire.sync.client import SyncClient
from quire.sync.twins import twin_of_function
from quire.tracing.spans import processing

__all__ = ["Progress", "consume", "relay"]

Apply: TypeAlias = Callable[[Any, Sequence[Record]], None]


@twin_of_function(sql.consume)
def consume(
    client: SyncClient,
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
    """See `quire.sql.consume`.

    Here `connection` blocks: a `sqlite3.Connection`, a `psycopg.Connection` or a function that
    makes one, an `Engine` or a `sessionmaker` of SQLAlchemy, or a `Target`. `apply` is a plain
    function, and runs in the calling thread. Ctrl-C rolls back the open transaction and resigns.
    """
    job = Job(
        *(log, consumer, start, follow, TransactionLimits(records, seconds), fail_on_data_loss),
        *(session_timeout, password, keyring, on_commit),
    )
    target = target_of(connection, table)
    attempts = Attempts(job)
    try:
        while True:
            try:
                target.prepare()
                election = client._client.election(job.election, session_timeout=session_timeout)
                with client._portal.hold(election.lead()) as leadership:
                    _lead(client, job, target, apply, leadership, attempts)
                return attempts.total
            except Exception as error:
                pause = attempts.pause_after(error, is_transient=target.is_transient(error))
            time.sleep(pause)
    finally:
        target.close()


def _lead(
    client: SyncClient,
    job: Job,
    target: Target,
    apply: Apply,
    leadership: Leadership,
    attempts: Attempts,
) -> None:
    """Consume until the log ends, under one leadership and from one place."""
    portal = client._portal
    place = target.load(job.consumer, job.log)
    if place is None and (place := portal.call(first_place(client._client, job))) is not None:
        with target.transaction(Move(job.consumer, job.log, None, place)):
            pass
    with portal.hold(open_steps(client._client, job, place, leadership)) as steps:
        while (step := portal.call(steps.next())) is not None:
            spans = client._client._handles.meter.spans
            traced = processing(spans, job.log, step.records, job.consumer)
            with traced, target.transaction(step.move) as handle:
                try:
                    apply(handle, step.records)
                except Exception as error:
                    job.blame(error, step.records)
                    raise
            if job.on_commit is not None:
                job.on_commit(job.progress(step, attempts.total))
            attempts.done(len(step.records))


@twin_of_function(sql.relay)
def relay(
    client: SyncClient,
    log: str,
    connection: Any,
    *,
    table: str = OUTBOX,
    mark: bool = False,
    follow: bool = True,
    records: int = ROWS,
    seconds: float = POLL_SECONDS,
    options: LogOptions | None = None,
    session_timeout: float = SESSION_SECONDS,
) -> int:
    """See `quire.sql.relay`.

    Here `connection` blocks, as for `consume`. It is used in another thread: connect to SQLite with
    `check_same_thread=False`.
    """
    work = sql.relay(
        client._client,
        log,
        ThreadedDatabase(database(connection)),
        table=table,
        mark=mark,
        follow=follow,
        records=records,
        seconds=seconds,
        options=options,
        session_timeout=session_timeout,
    )
    return client._portal.call(work)
