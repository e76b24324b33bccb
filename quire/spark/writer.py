"""Writing data frames and streams into a log: whole jobs or nothing.

Every task writes ledgers of its own, parts; when all tasks are done the driver has the log ingest
them in one compare-and-set, in the order of the partitions (quire/log/maintenance/ingest.py).
Before that, no reader sees any of it. A write is a takeover: it deposes a leader that is writing
the log.

The log remembers a batch by the option `job`, and a batch of a stream by `job`, its number, the
query that wrote it and a digest of its records (content.py). So a batch that is repeated, after a
failure that hid the outcome, is not in the log twice, and a batch of another query under the same
number is not mistaken for it.
"""

from __future__ import annotations

import logging
import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, groupby
from typing import Any, ClassVar, Final, cast

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    WriterCommitMessage,
)

from quire.entry import LedgerId
from quire.errors import ConfigurationError, InvalidRequestError
from quire.log.manifest.capacity import warning
from quire.log.manifest.manifest import Job
from quire.log.records.arrow_rows import Cell, RecordRows, rows_of
from quire.log.records.attributes import (
    ATTRIBUTES_BYTES,
    NO_ATTRIBUTES,
    Attributes,
    encode_attributes,
)
from quire.log.records.batch import UNPLACED, decode_header, encode_batch, renumber_batch
from quire.log.records.encryption import Encryption
from quire.log.records.producers import encode_columns
from quire.log.records.txids import NO_TXID
from quire.log.segment_store.ledgers import facts_of
from quire.spark.clients import worker_client, worker_keyring
from quire.spark.content import Content
from quire.spark.errors import reporting
from quire.spark.options import WriteOptions
from quire.spark.patience import patiently
from quire.spark.versions import DataSourceStreamArrowWriter
from quire.sync import SyncLedgerWriter
from quire.sync.ingest import SyncIngest

UNKNOWN_QUERY: Final = "unknown"
QUERY_DIGITS: Final = 16
_QUERY_PROPERTY: Final = "sql.streaming.queryId"
"""Spark sets it for every task of a streaming query; it stays with the checkpoint."""

GROUP_BYTES: Final = 4 * 1024 * 1024
"""A task waits for its bookies once per so many bytes."""

SENT_BYTES_MAX: Final = 128 * 1024
"""A task with as much sends it to the driver: 128 MiB from a thousand tasks, where Spark takes a
gigabyte (`spark.driver.maxResultSize`).
"""

_NOTHING: Final = Content()

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class Parts(WriterCommitMessage):
    """The ledgers that a task wrote and closed, in order; or its batches, without a ledger."""

    ledgers: tuple[LedgerId, ...]
    content: Content = _NOTHING
    query: str = ""
    batches: tuple[bytes, ...] = ()


class _Writing:
    """The common part of batches and streams; sent to every task."""

    _digests: ClassVar[bool]
    """Whether the log remembers a digest of the records."""

    def __init__(self, options: WriteOptions, job: str) -> None:
        self._options = options
        self._job = job

    @property
    def _ingest(self) -> SyncIngest:
        return worker_client(self._options.cluster)._logs.ingest(self._options.log)

    def begin(self) -> PartWriter:
        """Return where a task puts its records."""
        return PartWriter(self._ingest, self._job, self._options, digests=self._digests)

    def end(self, writer: PartWriter) -> Parts:
        """Return the message of a task that has added its last record."""
        ledgers, sent = writer.finish()
        return Parts(ledgers, writer.content, running_query(), sent)

    def _write(self, batches: Iterator[Any]) -> Parts:
        writer = self.begin()
        try:
            for batch in batches:
                writer.add(rows_of(batch))
            return self.end(writer)
        except BaseException:
            writer.abandon()
            raise

    def _ingest_parts(self, parts: Sequence[Parts], job: Job, remember: bool) -> None:
        manifest = patiently(
            self._ingest.ingest,
            self._ledgers(parts),
            job,
            remember=remember,
            after=self._options.after,
            password=self._options.log_options.password,
        )
        growth = warning(manifest)
        if growth is not None:
            _log.warning("%s; let fewer tasks write, coalesce(…)", growth)

    def _ledgers(self, parts: Sequence[Parts]) -> list[LedgerId]:
        """Return the ledgers of all tasks, in order; batches that were sent are in them."""
        found: list[LedgerId] = []
        for has_ledgers, group in groupby(parts, lambda each: bool(each.ledgers)):
            if has_ledgers:
                found += [ledger for each in group for ledger in each.ledgers]
            else:
                sent = [batch for each in group for batch in each.batches]
                found += patiently(self._write_sent, sent)
        return found

    def _write_sent(self, batches: Sequence[bytes]) -> tuple[LedgerId, ...]:
        writer = PartWriter(self._ingest, self._job, self._options)
        try:
            for batch in batches:
                writer.add_batch(batch)
            return writer.close()
        except BaseException:
            writer.abandon()
            raise


@reporting
class LogWriter(_Writing, DataSourceArrowWriter):
    """Writes a data frame."""

    _digests = False

    def __init__(self, options: WriteOptions) -> None:
        super().__init__(options, options.job or f"once-{random.Random().getrandbits(64):016x}")

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write a partition's rows, in a worker."""
        return Parts(()) if self.has_done() else self._write(iterator)

    def has_done(self) -> bool:
        """Return whether the log has the records of this job. Raises `ForgottenJobError`."""
        return bool(self._options.job) and patiently(self._ingest.has_done, self._work)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Put the whole job into the log."""
        self._ingest_parts(_parts(messages), self._work, bool(self._options.job))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete the ledgers that the tasks wrote."""
        patiently(self._ingest.drop, self._job)

    @property
    def _work(self) -> Job:
        return Job(self._job, self._options.sequence)


@reporting
class LogStreamWriter(_Writing, DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query; their numbers are the job's sequence."""

    _digests = True

    def __init__(self, options: WriteOptions) -> None:
        if not options.job:
            raise ConfigurationError(
                "a streaming write needs .option('job', …): a name that no other query of this log "
                "uses, so that a batch that is sent again is recognized"
            )
        super().__init__(options, options.job)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write a partition's rows, in a worker."""
        return self._write(iterator)

    def has_done(self) -> bool:
        """Return False: whether it is the same batch again, its records will tell."""
        return False

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Put the whole batch into the log, unless it is there.

        Raises `JobReusedError` when the log knows this job from another query, or this number with
        other records.
        """
        parts = _parts(messages)
        if not parts:
            return  # no task ran, so that there is nothing to write and no query to remember
        content = reduce(Content.joined, (each.content for each in parts))
        self._ingest_parts(parts, Job(self._job, batchId, parts[0].query, content.digest), True)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Delete the ledgers that the tasks wrote."""
        patiently(self._ingest.drop, self._job)


def running_query() -> str:
    """The identity of this task's streaming query, as its checkpoint has it.

    `UNKNOWN_QUERY` where Spark does not say; batches that are not a stream's do not use it.
    """
    context = TaskContext.get()
    found = context.getLocalProperty(_QUERY_PROPERTY) if context is not None else None
    return found.replace("-", "")[:QUERY_DIGITS] if found else UNKNOWN_QUERY


def _parts(messages: Sequence[WriterCommitMessage | None]) -> list[Parts]:
    return [each for each in messages if isinstance(each, Parts)]


def _digested(payload: bytes, attributes: Attributes) -> bytes:
    """Return the bytes that stand for a record in the content of a batch."""
    if attributes == NO_ATTRIBUTES:
        return payload
    size = len(payload).to_bytes(8)
    return b"".join((size, payload, encode_columns(encode_attributes([attributes]))))


def _as_records(payloads: Sequence[Cell]) -> list[bytes]:
    """Return payloads as bytes. Raises `InvalidRequestError` for a null payload."""
    records = [each.encode() if isinstance(each, str) else each for each in payloads]
    if any(each is None for each in records):
        raise InvalidRequestError("a record is bytes: filter out rows with payload null")
    return cast("list[bytes]", records)


class PartWriter:
    """Packs records into entries and entries into parts."""

    def __init__(
        self, ingest: SyncIngest, job: str, options: WriteOptions, *, digests: bool = False
    ) -> None:
        self._ingest = ingest
        self._job = job
        self._digests = digests
        self._options = options.log_options
        self._key_file = options.key_file
        self._encryption: Encryption | None = None
        self._writer: SyncLedgerWriter | None = None
        self._done: list[LedgerId] = []
        self._records: list[bytes] = []
        self._attributes: dict[int, Attributes] = {}
        """Of the waiting records that have any, by place."""
        self._may_have_attributes = False
        self._record_bytes = 0
        self._entries: list[bytes] = []
        self._entry_bytes = 0
        self._next_offset = 0
        self.content = Content()
        """The content of all records so far, if they are digested."""

    def add(self, rows: RecordRows) -> None:
        """Add rows. Raises `InvalidRequestError` for a null payload, `EntryTooLargeError` for a row
        that is too large by itself, and `LevelNeededError` for keys, headers and event times that
        the cluster's level does not allow.
        """
        records = _as_records(rows.payloads)
        if rows.attributes:
            self._add_with_attributes(records, rows.attributes)
        else:
            self._add_plain(records)

    def _add_plain(self, records: Sequence[bytes]) -> None:
        """Add records without attributes: a step for each entry, not for each record."""
        options, ends = self._options, list(accumulate(map(len, records)))
        at = added = 0
        while at < len(records):
            room = added + options.batch_bytes - self._record_bytes
            count = options.batch_records - len(self._records)
            end = bisect_right(ends, room, at, min(at + count, len(ends)))
            if end == at and not self._records:
                end = at + 1  # a large record may fit into an entry only when it is alone there
            if end > at:
                self._records += records[at:end]
                self._record_bytes += ends[end - 1] - added
                at, added = end, ends[end - 1]
            if at < len(records) or len(self._records) >= options.batch_records:
                self._seal()

    def _add_with_attributes(
        self, records: Sequence[bytes], attributes: Sequence[Attributes]
    ) -> None:
        options = self._options
        for record, given in zip(records, attributes, strict=True):
            size = len(record)
            if given is not NO_ATTRIBUTES:
                self._allow_attributes()
                size += ATTRIBUTES_BYTES + given.cost()
            # In front of it: a large record may fit into an entry only when it is alone there.
            if self._record_bytes + size > options.batch_bytes:
                self._seal()
            if given is not NO_ATTRIBUTES:
                self._attributes[len(self._records)] = given
            self._records.append(record)
            self._record_bytes += size
            if len(self._records) >= options.batch_records:
                self._seal()

    def _allow_attributes(self) -> None:
        if not self._may_have_attributes:
            patiently(self._ingest.check_attributes_allowed)
            self._may_have_attributes = True

    def add_batch(self, batch: bytes) -> None:
        """Add a batch that another task made, after all records so far."""
        count = decode_header(batch, 0, 0).count
        self._add_entry(renumber_batch(batch, UNPLACED.first_offset + self._next_offset), count)

    def finish(self) -> tuple[tuple[LedgerId, ...], tuple[bytes, ...]]:
        """Return the parts, closed; or the batches, if they are so small that the driver writes
        them. An encrypted batch is bound to its ledger, so it is never sent.
        """
        self._seal()
        is_small = self._entry_bytes <= SENT_BYTES_MAX and self._key_file is None
        if is_small and self._writer is None and not self._done:
            return (), tuple(self._entries)
        return self.close(), ()

    def close(self) -> tuple[LedgerId, ...]:
        """Write the rest and return the parts, closed."""
        self._send()
        self._close()
        return tuple(self._done)

    @property
    def waiting_bytes(self) -> int:
        """Bytes that were not sent yet."""
        return self._record_bytes + self._entry_bytes

    def flush(self) -> None:
        """Send all waiting records to the bookies."""
        self._seal()
        self._send()

    def abandon(self) -> None:
        """Leave the ledgers as they are, for `gc`."""
        if self._writer is not None:
            self._writer.abandon()

    def _seal(self) -> None:
        if not self._records:
            return
        attributes: list[Attributes] = []
        if self._attributes:
            places = range(len(self._records))
            attributes = [self._attributes.get(place, NO_ATTRIBUTES) for place in places]
        columns = encode_attributes(attributes)
        entry = encode_batch(
            self._records,
            first_offset=UNPLACED.first_offset + self._next_offset,
            epoch=UNPLACED.epoch,
            timestamp_ms=UNPLACED.timestamp_ms,
            compression=self._options.compression,
            columns=encode_columns(columns),
        )
        if self._digests:
            digested = map(_digested, self._records, attributes) if columns else self._records
            self.content = self.content.with_records(digested, self._key())
        count = len(self._records)
        self._records, self._attributes, self._record_bytes = [], {}, 0
        self._add_entry(entry, count)

    def _add_entry(self, entry: bytes, count: int) -> None:
        self._next_offset += count
        self._entries.append(entry)
        self._entry_bytes += len(entry)
        if self._entry_bytes >= GROUP_BYTES:
            self._send()

    def _send(self) -> None:
        if not self._entries:
            return
        if self._writer is None:
            self._writer = patiently(self._ingest.create_part, self._job, self._options)
        self._writer.append_many(self._encrypted(self._writer))
        self._entries, self._entry_bytes = [], 0
        if self._writer.length >= self._options.roll_bytes:
            self._close()

    def _encrypted(self, writer: SyncLedgerWriter) -> list[bytes]:
        keyring = worker_keyring(self._key_file)
        if keyring is None:
            return self._entries
        if self._encryption is None:
            self._encryption = Encryption.of(keyring, facts_of(writer._metadata))
            assert self._encryption is not None
        first = writer.last_pushed + 1
        return [
            self._encryption.seal(each, entry, NO_TXID)
            for entry, each in enumerate(self._entries, first)
        ]

    def _key(self) -> bytes:
        keyring = worker_keyring(self._key_file)
        if keyring is None or keyring.current is None:
            return b""
        return keyring.key(keyring.current) or b""

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._done.append(self._writer.ledger)
            self._writer = self._encryption = None
            self._next_offset = 0
