"""A leader's handle: its records carry the trace of their append.

Only a client with record spans makes one (`connect(tracer_provider=…, trace_records=True)`), so a
plain log pays nothing. An append outside of any trace costs one look at the context.

Invariants:
  - Tracing decides no outcome. A record that has no space for the headers goes without them, and
    so do all records below the feature level of headers.
  - A record that has a context already, as one from an outbox, keeps it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from quire.entry import as_bytes
from quire.errors import EntryTooLargeError, QuireError
from quire.log.leader.log import Log
from quire.log.leader.tables import AppendedTable
from quire.log.records.attributes import HEADERS_MAX, Headers, NewRecord
from quire.log.records.position import Appended
from quire.log.records.producers import ProducerSequence
from quire.metastore.levels import ATTRIBUTES_LEVEL
from quire.tracing.spans import Spans, TracedAppend


def kind_of_log(spans: Spans) -> type[Log]:
    """Return the class of a leader's handle: `TracedLog` where records have spans."""
    return Log if spans.messages is None else TracedLog


def carrying(record: bytes | NewRecord, headers: Headers) -> bytes | NewRecord:
    """Return a record with more headers, or as it is if it has one of them or too many."""
    if not isinstance(record, NewRecord):
        return NewRecord(as_bytes(record), headers=headers)
    key, own, event_time = record.attributes
    taken = {name for name, _ in own}
    if any(name in taken for name, _ in headers) or len(own) + len(headers) > HEADERS_MAX:
        return record
    return NewRecord(record.payload, key=key, headers=(*own, *headers), event_time=event_time)


class TracedLog(Log):
    """A `Log` with a span for each append inside of a sampled trace. Made by `LogDirectory.open`.

    Guarantees: every promise of `Log`. The headers of a trace count as the record's own.
    """

    def __init__(self, *given: Any, spans: Spans, **options: Any) -> None:
        super().__init__(*given, spans=spans, **options)
        assert spans.messages is not None, "kind_of_log chose this class"
        self._messages = spans.messages

    async def submit(
        self,
        record: bytes | NewRecord,
        *,
        expected_offset: int | None = None,
        producer_sequence: ProducerSequence | None = None,
        txid: int | None = None,
    ) -> asyncio.Future[Appended]:
        """See `Log.submit`."""
        sending = self._messages.send(self.name, 1)

        async def submitted(one: bytes | NewRecord) -> asyncio.Future[Appended]:
            return await super(TracedLog, self).submit(
                one,
                expected_offset=expected_offset,
                producer_sequence=producer_sequence,
                txid=txid,
            )

        if sending is None:
            return await submitted(record)
        try:
            (traced,) = await self._carrying((record,), sending.headers)
            try:
                future = await submitted(traced)
            except EntryTooLargeError:
                if traced is record:
                    raise
                future = await submitted(record)
        except BaseException as error:
            sending.fail(error)
            raise
        future.add_done_callback(partial(_tell, sending))
        return future

    async def submit_many(
        self,
        records: Sequence[bytes | NewRecord],
        *,
        expected_offset: int | None = None,
        producer_sequence: ProducerSequence | None = None,
        txid: int | None = None,
    ) -> asyncio.Future[list[Appended]]:
        """See `Log.submit_many`. One span stands for all records, also those of `append_many`."""
        given = list(records)
        sending = self._messages.send(self.name, len(given)) if given else None

        async def submitted(
            some: Sequence[bytes | NewRecord],
        ) -> asyncio.Future[list[Appended]]:
            return await super(TracedLog, self).submit_many(
                some,
                expected_offset=expected_offset,
                producer_sequence=producer_sequence,
                txid=txid,
            )

        if sending is None:
            return await submitted(given)
        try:
            traced = await self._carrying(given, sending.headers)
            try:
                future = await submitted(traced)
            except EntryTooLargeError:
                future = await submitted(given)
        except BaseException as error:
            sending.fail(error)
            raise
        future.add_done_callback(partial(_tell, sending))
        return future

    async def append_table(self, table: Any) -> AppendedTable:
        """See `Log.append_table`. One span stands for the whole table."""
        with self._messages.send_many(self.name) as end:
            done = await super().append_table(table)
            end(done.records, None if done.first is None else done.first.offset)
        return done

    async def _carrying(
        self, records: Iterable[bytes | NewRecord], headers: Headers
    ) -> list[bytes | NewRecord]:
        """Return records with headers, or as they are where headers are not allowed yet."""
        given = list(records)
        try:
            is_allowed = bool(headers) and await self._record.allows(ATTRIBUTES_LEVEL)
        except QuireError:
            is_allowed = False  # the store is away: an append of bytes does not need it
        return [carrying(each, headers) for each in given] if is_allowed else given


def _tell(
    sending: TracedAppend, future: asyncio.Future[Appended] | asyncio.Future[list[Appended]]
) -> None:
    """Tell how an append ended."""
    if future.cancelled():
        sending.fail(asyncio.CancelledError())
    elif (error := future.exception()) is not None:
        sending.fail(error)
    else:
        done = future.result()
        sending.end((done[0] if isinstance(done, list) else done).offset)
