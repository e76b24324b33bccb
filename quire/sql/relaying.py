"""Rows of an outbox into a log, each exactly once and in commit order: `quire.sql.relay`.

    elected, log taken over → load the relay's row → append the rows that were begun → note them as
    done, and the next ones as begun, in one transaction → append those → … → again

Leading the log fences: a relay that was paused appends nothing, and its row in the database moved.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from quire.client import SESSION_SECONDS, Client
from quire.errors import (
    ConfigurationError,
    LogReplacedError,
    OutboxRowError,
    OutboxSkippedError,
    PositionMovedError,
    PositionTrimmedError,
)
from quire.log.leader.log import Log
from quire.log.manifest.options import LogOptions
from quire.log.records.position import Appended
from quire.log.records.producers import ProducerSequence
from quire.sql.adapters import async_database
from quire.sql.database import AsyncDatabase
from quire.sql.job import BACKOFF, SUPERSEDED, log_
from quire.sql.outbox import (
    SEQUENCE_MAX,
    TABLE,
    TRIMMED,
    OutboxStatements,
    Row,
    Sent,
    first_of,
    last_fitting,
)

POLL_SECONDS: Final = 0.2
"""How often an empty outbox is looked at by default: one short query."""

RECORDS: Final = 1000
"""Rows of one append at most, by default."""

PENDING_MAX: Final = 1_000_000
"""No append has more rows: the `records` of the relay that began it are unknown."""


async def relay(
    client: Client,
    log: str,
    connection: Any,
    *,
    table: str = TABLE,
    mark: bool = False,
    follow: bool = True,
    records: int = RECORDS,
    seconds: float = POLL_SECONDS,
    options: LogOptions | None = None,
    session_timeout: float = SESSION_SECONDS,
) -> int:
    """Append the rows of an outbox to a log, each exactly once and in commit order.

        await quire.sql.relay(client, "orders", engine)

    The application inserts rows (`log`, `payload`, and optionally `key`, `headers` as a JSON object
    of text, `event_time_ms`) in the transactions that change its tables. The relay leads the log.

    Any number of processes may run the same relay: one is elected and works, the others wait to
    take over.

    Args:
        client: a client of the cluster.
        log: the log's name. Rows with this name in their column `log` go there.
        connection: the database, as for `consume`.
        table: the outbox, which is created if it is missing, with its index and trigger.
        mark: keep rows and note their offsets in the log in `log_offset`. Otherwise rows are
            deleted once they are in the log.
        follow: wait for more rows. Without it, stop when the outbox is empty.
        records: rows of one append at most.
        seconds: how often an empty outbox is looked at.
        options: options of the log's leader; None for the defaults.
        session_timeout: seconds without a heartbeat after which another process takes over.

    Returns:
        How many rows were found to be in the log.

    Raises:
        OutboxRowError: a row cannot be a record. Rows before it are in the log.
        OutboxSkippedError: a row would never be sent: the trigger did not number it, or the
            sequence was set back. A relay looks for such rows when it begins.
        EntryTooLargeError: a row is too large for the log.
        LogReplacedError: the log was deleted and recreated since the relay began. Delete its row
            in `quire_relays` to go on in the new log.
        SequenceConflictError: the database went back to an older state, such as a backup. Compare
            the outbox with the log, then delete the relay's row in `quire_relays`.
        ConfigurationError, UnsupportedError: an argument or the database cannot work.
        QuireError: the errors of `lead_log`.

    Cancellation: an append may be under way. The next relay finds out.

    Guarantees: a committed row becomes one record, after the records of every row that was
        committed before; a row of a transaction that rolled back becomes none. This holds after
        any crash of the relay, the application or the database, with the limits that
        docs/how-to/outbox.md names.
    """
    database = async_database(connection)
    try:
        if records < 1 or not seconds > 0:
            raise ConfigurationError(
                f"a relay appends {records} rows every {seconds} s: both must be positive"
            )
        outbox = OutboxTable(database, OutboxStatements(table), log, mark=mark, records=records)
        pauses, total = BACKOFF.pauses(), 0
        while True:
            try:
                await outbox.prepare()
                async with client.lead_log(
                    log, options, election=f"outbox:{log}", session_timeout=session_timeout
                ) as leader:
                    sent = await outbox.open(leader.log_id, client._rng)
                    rows = await outbox.pending(sent)
                    while True:
                        places = await append(leader, sent, rows)
                        before, (sent, rows) = len(rows), await outbox.step(sent, rows, places)
                        total += before
                        pauses.reset()
                        if not rows and not follow:
                            return total
                        if not rows:
                            await asyncio.sleep(seconds)
                            await leader.drain()  # raises if the log is lost
            except Exception as error:
                if not isinstance(error, SUPERSEDED) and not database.is_transient(error):
                    raise
                failed = error
            else:
                continue  # the leadership was lost: stand for election again
            pause = pauses.next()
            log_.warning("relay of log %r begins again in %.1f s: %s", log, pause, failed)
            await asyncio.sleep(pause)
    finally:
        await database.close()


async def append(leader: Log, sent: Sent, rows: Sequence[Row]) -> Sequence[Appended]:
    """Append rows as one entry under the relay's number, and return their places.

    None are returned for rows that were appended before and are trimmed by now.
    """
    if not rows:
        return ()
    number = ProducerSequence(sent.producer, sent.sending)
    try:
        return await leader.append_many([row.record() for row in rows], producer_sequence=number)
    except PositionTrimmedError:
        return ()


class OutboxTable:
    """An outbox with its relay's row, with coroutines."""

    def __init__(
        self,
        database: AsyncDatabase,
        statements: OutboxStatements,
        log: str,
        *,
        mark: bool,
        records: int,
    ) -> None:
        self._database = database
        self._statements = statements
        self._log = log
        self._mark = mark
        self._records = records

    async def prepare(self) -> None:
        """Create the tables, the index and the trigger, unless they are there."""
        execute = self._database.execute
        async with self._database.begin("quire") as handle:
            dialect = self._database.dialect(handle)
            if (await execute(handle, self._statements.is_ready(dialect))).first is None:
                for statement in self._statements.create(dialect):
                    await execute(handle, statement)

    async def open(self, log_id: str, rng: random.Random) -> Sent:
        """Return the relay's row, which is made if it is missing.

        Raises `LogReplacedError`, and `OutboxSkippedError` for a row that would never be sent.
        """
        keys = self._statements.keys(self._log)
        new = Sent(f"outbox-{rng.getrandbits(64):016x}", log_id, 0, 0)
        async with self._database.begin("quire") as handle:
            await self._database.execute(
                handle,
                self._statements.begin,
                {**self._statements.keys(self._log, new), "log_id": log_id},
            )
            found = (await self._database.execute(handle, self._statements.load, keys)).first
            assert found is not None, "the row is there"
            sent = Sent(*found)
            if sent.log_id != log_id:
                raise LogReplacedError(self._log)
            strays = self._statements.strays
            span = {"log": self._log, "sent": sent.sent}
            stray = (await self._database.execute(handle, strays, span)).first
            if stray is not None:
                row, sequence = stray
                raise OutboxSkippedError(self._statements.table, row, sequence, sent.sent)
        return sent

    async def pending(self, sent: Sent) -> Sequence[Row]:
        """Return the rows that a relay was about to append."""
        if not sent.is_pending:
            return ()
        async with self._database.begin("quire") as handle:
            return await self._rows(handle, sent.sent, sent.sending, PENDING_MAX)

    async def _next(self, handle: Any, after: int) -> Sequence[Row]:
        """Return the rows of the next append."""
        given = {"log": self._log, "after": after, "upto": SEQUENCE_MAX, "count": self._records}
        sizes = (await self._database.execute(handle, self._statements.sizes, given)).rows
        upto = last_fitting(sizes)
        if upto is None:
            return ()
        return first_of(await self._rows(handle, after, upto, self._records))

    async def _rows(self, handle: Any, after: int, upto: int, count: int) -> Sequence[Row]:
        parameters = {"log": self._log, "after": after, "upto": upto, "count": count}
        found = await self._database.execute(handle, self._statements.rows, parameters)
        return [Row(*row) for row in found.rows]

    async def step(
        self, sent: Sent, rows: Sequence[Row], places: Sequence[Appended]
    ) -> tuple[Sent, Sequence[Row]]:
        """Note that rows are in the log, and choose the next ones, in one transaction.

        Raises `PositionMovedError` if another relay did so, and `OutboxRowError` once the rows are
        noted.
        """
        execute, statements = self._database.execute, self._statements
        invalid: OutboxRowError | None = None
        async with self._database.begin("quire") as handle:
            try:
                chosen = await self._next(handle, sent.sending)
            except OutboxRowError as error:
                if not sent.is_pending:
                    raise
                chosen, invalid = (), error
            sending = chosen[-1].sequence if chosen else sent.sending
            following = replace(sent, sent=sent.sending, sending=sending)
            if following == sent:
                return sent, ()
            parameters = {
                **statements.keys(self._log, sent),
                "next_sent": following.sent,
                "next_sending": following.sending,
            }
            step = statements.step(self._database.dialect(handle))
            if (await execute(handle, step, parameters)).changed != 1:
                keys = statements.keys(self._log)
                now = (await execute(handle, statements.load, keys)).first
                at = "an unknown place" if now is None else str(Sent(*now))
                raise PositionMovedError("relay", self._log, str(sent), at)
            await self._clear(handle, sent, rows, places)
        if invalid is not None:
            raise invalid
        return following, chosen

    async def _clear(
        self, handle: Any, sent: Sent, rows: Sequence[Row], places: Sequence[Appended]
    ) -> None:
        """Mark or delete rows that are in the log."""
        execute, statements = self._database.execute, self._statements
        if self._mark:
            offsets = [place.offset for place in places] or [TRIMMED] * len(rows)
            for row, offset in zip(rows, offsets, strict=True):
                noted = {"log_offset": offset, "sequence": row.sequence}
                await execute(handle, statements.mark, noted)
        elif sent.is_pending:
            span = {"log": self._log, "after": sent.sent, "upto": sent.sending}
            await execute(handle, statements.delete, span)
