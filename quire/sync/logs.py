"""Blocking twins of a log and its reader."""

from __future__ import annotations

import concurrent.futures
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from typing import Any, Self, TypeAlias

from quire.log.leader.log import Log
from quire.log.leader.tables import AppendedTable
from quire.log.manifest.options import LogOptions
from quire.log.reading.reader import LogReader
from quire.log.reading.segment_reader import RecordBatch
from quire.log.records.attributes import NewRecord
from quire.log.records.position import Appended, Position, Record
from quire.log.records.producers import ProducerSequence
from quire.sync.handle import SyncHandle
from quire.sync.portal import Portal
from quire.sync.twins import twin_of

Around: TypeAlias = Callable[[Coroutine[Any, Any, bool]], Coroutine[Any, Any, bool]]


async def _plainly(step: Coroutine[Any, Any, bool]) -> bool:
    return await step


@twin_of(Log, "_log")
class SyncLog(SyncHandle):
    """Blocking twin of `Log`. Safe to use from several threads.

    As a context manager it closes the log at the end.
    """

    def __init__(self, portal: Portal, log: Log) -> None:
        self._portal = portal
        self._log = log

    @property
    def name(self) -> str:
        """The log's name."""
        return self._log.name

    @property
    def log_id(self) -> str:
        """See `Log.log_id`."""
        return self._log.log_id

    @property
    def options(self) -> LogOptions:
        """See `Log.options`."""
        return self._log.options

    @property
    def epoch(self) -> int:
        """See `Log.epoch`."""
        return self._log.epoch

    @property
    def is_deposed(self) -> bool:
        """See `Log.is_deposed`."""
        return self._log.is_deposed

    @property
    def has_ended(self) -> bool:
        """See `Log.has_ended`."""
        return self._log.has_ended

    @property
    def failure(self) -> str | None:
        """See `Log.failure`."""
        return self._log.failure

    @property
    def next_offset(self) -> int:
        """See `Log.next_offset`."""
        return self._log.next_offset

    def last_sequence(self, producer: str) -> int | None:
        """See `Log.last_sequence`."""
        return self._log.last_sequence(producer)

    def append(
        self,
        record: bytes | NewRecord,
        *,
        expected_offset: int | None = None,
        producer_sequence: ProducerSequence | None = None,
        txid: int | None = None,
    ) -> Appended:
        """See `Log.append`."""
        work = self._log.append(
            record, expected_offset=expected_offset, producer_sequence=producer_sequence, txid=txid
        )
        return self._portal.call(work)

    def append_many(
        self,
        records: Sequence[bytes | NewRecord],
        *,
        expected_offset: int | None = None,
        producer_sequence: ProducerSequence | None = None,
        txid: int | None = None,
    ) -> list[Appended]:
        """See `Log.append_many`."""
        work = self._log.append_many(
            records, expected_offset=expected_offset, producer_sequence=producer_sequence, txid=txid
        )
        return self._portal.call(work)

    def submit_many(
        self,
        records: Sequence[bytes | NewRecord],
        *,
        expected_offset: int | None = None,
        producer_sequence: ProducerSequence | None = None,
        txid: int | None = None,
    ) -> concurrent.futures.Future[list[Appended]]:
        """See `Log.submit_many`. The future may be waited for in any thread."""
        work = self._log.submit_many(
            records, expected_offset=expected_offset, producer_sequence=producer_sequence, txid=txid
        )
        return self._portal.submit(work)

    def append_table(self, table: Any) -> AppendedTable:
        """See `Log.append_table`."""
        return self._portal.call(self._log.append_table(table))

    def submit(
        self,
        record: bytes | NewRecord,
        *,
        expected_offset: int | None = None,
        producer_sequence: ProducerSequence | None = None,
        txid: int | None = None,
    ) -> concurrent.futures.Future[Appended]:
        """See `Log.submit`. The future may be waited for in any thread."""
        work = self._log.submit(
            record, expected_offset=expected_offset, producer_sequence=producer_sequence, txid=txid
        )
        return self._portal.submit(work)

    def drain(self) -> None:
        """See `Log.drain`."""
        self._portal.call(self._log.drain())

    def roll(self) -> None:
        """See `Log.roll`."""
        self._portal.call(self._log.roll())

    def trim(self, position: Position) -> None:
        """See `Log.trim`."""
        self._portal.call(self._log.trim(position))

    def seal(self) -> None:
        """See `Log.seal`."""
        self._portal.call(self._log.seal())

    def wait_deposed(self) -> None:
        """See `Log.wait_deposed`."""
        self._portal.call(self._log.wait_deposed())

    def close(self) -> None:
        """See `Log.close`."""
        self._portal.call(self._log.close())

    def abandon(self) -> None:
        """See `Log.abandon`."""
        self._portal.call_plain(self._log.abandon)


@twin_of(LogReader, "_reader")
class SyncLogReader(SyncHandle):
    """Blocking twin of `LogReader`: a plain iterator of records, for one thread at a time.

    After an error or Ctrl-C it can be continued: nothing is skipped.
    """

    def __init__(self, portal: Portal, reader: LogReader) -> None:
        self._portal = portal
        self._reader = reader
        self._source: AsyncGenerator[RecordBatch, None] | None = None
        self._batch: RecordBatch | None = None
        self._records: deque[Record] | None = deque()  # None: all records of the batch

    @property
    def name(self) -> str:
        """See `LogReader.name`."""
        return self._reader.name

    @property
    def log_id(self) -> str | None:
        """See `LogReader.log_id`."""
        return self._reader.log_id

    @property
    def position(self) -> Position:
        """See `LogReader.position`."""
        records = self._unpack()
        return records[0].position if records else self._reader.position

    @property
    def ended_open(self) -> bool:
        """See `LogReader.ended_open`."""
        return self._reader.ended_open

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record:
        if (record := self.take(_plainly)) is None:
            raise StopIteration
        return record

    def take(self, around: Around) -> Record | None:
        """Return the next record; for callers that work while the reader waits.

        Args:
            around: wraps each wait for more records, on the loop's thread.

        Returns:
            The record; None at the end.

        Raises:
            QuireError: the errors of iteration.
        """
        while not (records := self._unpack()):
            if not self._portal.call(around(self._fetch())):
                return None
        return records.popleft()

    def read_batches(self) -> Iterator[RecordBatch]:
        """See `LogReader.read_batches`."""
        while True:
            if self._batch is not None and (self._records is None or self._records):
                batch = self._batch
                if self._records is not None:
                    batch = replace(batch, slot=self._records[0].position.slot)
                self._records = deque()
                yield batch
            elif not self._portal.call(self._fetch()):
                return

    def _unpack(self) -> deque[Record]:
        if self._records is None:
            self._records = deque(() if self._batch is None else self._batch.records())
        return self._records

    async def _fetch(self) -> bool:
        """Take the next batch, False at the end.

        The batch is kept here, in the loop's thread: if Ctrl-C ended a call right when it is
        answered, the answer would be lost.
        """
        if self._source is None:
            self._source = self._reader.read_batches()
        try:
            batch = await anext(self._source, None)
        except BaseException:
            self._source = None  # a generator that raised is over; the reader knows the position
            raise
        if batch is None:
            self._source = None  # there may be more later
        else:
            self._batch, self._records = batch, None
        return batch is not None

    def close(self) -> None:
        """See `LogReader.close`."""
        self._portal.call(self._close())

    async def _close(self) -> None:
        await self._reader.close()  # first: another thread may be reading
        source, self._source = self._source, None
        if source is not None:
            await source.aclose()
