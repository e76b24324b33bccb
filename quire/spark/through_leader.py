"""Writing through a gateway, beside its other writers: no leader is deposed.

Each task sends its rows in chunks (chunks.py), one after the other, to the gateway that leads the
log. A chunk has a producer and a number, so a task that fails, runs twice or is repeated writes
each chunk once. Readers see a chunk as soon as it is certain: a write that fails has written some.

A gateway compares how many records a repeated chunk has, but not which. Its answer tells whether
the chunk was there before. If so, another attempt wrote it, earlier or at the same time, and the
task reads the chunk back and compares it with its own rows. The log knows the places of a
producer's last chunks only. An attempt that another one outruns looks for its chunks in the log,
from the last place that it knows.

Not here: whole jobs or nothing (writer.py).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from quire.errors import (
    ConfigurationError,
    InvalidRequestError,
    RowsChangedError,
)
from quire.log.records.arrow_rows import rows_of
from quire.spark.asking_gateways import Asking, Connections, Gateways, PassedError, parse_gateways
from quire.spark.chunks import (
    BATCH_MAX,
    CHUNK_RECORDS,
    ChunkNumber,
    ChunkSearch,
    Fields,
    Row,
    body_of,
    cut,
    difference,
    fields_of,
    producer_of,
    rows_in,
)
from quire.spark.errors import reporting
from quire.spark.options import Given, is_pattern
from quire.spark.versions import DataSourceStreamArrowWriter
from quire.spark.writer import UNKNOWN_QUERY, running_query
from quire.units import parse_seconds

MODE: Final = "through-leader"

TIMEOUT_SECONDS: Final = 120.0

_OPTIONS: Final = (
    "mode", "gateway", "log", "job", "sequence", "token", "timeoutSeconds", "checkpointLocation",
    "path",
)  # fmt: skip

_BATCH_PROPERTY: Final = "streaming.sql.batchId"
"""Spark sets it for every task of a micro-batch."""

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class LeaderOptions:
    """Where to write, and under which name."""

    gateways: Gateways
    job: str
    sequence: int = 0

    @classmethod
    def parse(cls, options: Mapping[str, str], *, routed: bool = False) -> LeaderOptions:
        """Raises `ConfigurationError` naming the option that is wrong."""
        given = Given(options, _OPTIONS, f"a write with mode={MODE} to")
        given.get("mode", _mode, None)
        if routed:
            raise ConfigurationError(
                f"mode={MODE} writes to one log: select the rows of one log, without column log"
            )
        for name in ("gateway", "log", "job"):
            given.required(name)
        gateways = Gateways(
            urls=_urls(given),
            log=given.get("log", _one_log, ""),
            token=_token(given),
            seconds=given.get("timeoutSeconds", _timeout, TIMEOUT_SECONDS),
        )
        return cls(gateways, given.get("job", str, ""), given.get("sequence", _sequence, 0))


def is_through_leader(options: Mapping[str, str]) -> bool:
    """Return whether options choose this way of writing. A mode of another name does, too, so that
    the error names it.
    """
    return any(name.lower() == "mode" for name in options)


@dataclass(frozen=True)
class SentChunks(WriterCommitMessage):
    """What a task has written, or found to be there."""

    batch: int
    records: int = 0
    chunks: int = 0
    repeated: int = 0
    """Chunks that an earlier attempt wrote."""


class _SeenLog(NamedTuple):
    """The log when an attempt began: its end, and the last chunk before the end."""

    end: int
    chunk: int


class ChunkSender:
    """Sends the chunks of one task."""

    def __init__(self, asking: Asking, options: LeaderOptions, producer: str, batch: int) -> None:
        self._asking = asking
        self._log = options.gateways.log
        self._job = options.job
        self._producer = producer
        self._batch = batch
        self._after: int | None = None
        """The offset after the last chunk, if the place of that is known: the next one is there or
        later, whichever attempt writes it.
        """
        self._before: _SeenLog | None = None

    def send(self, rows: Iterable[Row]) -> SentChunks:
        """Write rows, and return once they are certain.

        Raises:
            RowsChangedError: another attempt wrote other rows, or the job has come further.
            QuireError: the errors of `Asking.append`.
        """
        records = chunks = repeated = 0
        for chunk in cut(rows):
            repeated += self._send_chunk(ChunkNumber(self._batch, chunks), chunk)
            records, chunks = records + len(chunk), chunks + 1
        return SentChunks(self._batch, records, chunks, repeated)

    def _send_chunk(self, number: ChunkNumber, rows: Sequence[Row]) -> bool:
        """Return whether another attempt wrote the chunk."""
        fields = [fields_of(row) for row in rows]
        body = body_of(fields, self._producer, number)
        try:
            sent = self._asking.append(body)
        except PassedError as error:
            self._check_batch(number, error)
            self._compare_passed(number, fields, body)
            return True
        if sent.is_repeated:
            at = difference(fields, self._asking.read(sent.offset, len(rows)))
            if at is not None:
                offset = sent.offset + at
                raise self._changed(f"row {at} of chunk {number.chunk} is not at offset {offset}")
        self._after = sent.offset + len(rows)
        return sent.is_repeated

    def _check_batch(self, number: ChunkNumber, error: PassedError) -> int:
        """Return the last chunk that was sent. All before it are there: each attempt sends its
        chunks in order.
        """
        last = ChunkNumber.of(error.last)
        if last.batch != number.batch:
            raise self._changed(
                f"the job has come to number {last.batch}, and this is number {number.batch}"
            )
        return last.chunk

    def _compare_passed(self, number: ChunkNumber, fields: Sequence[Fields], body: bytes) -> None:
        """Compare a chunk after the log forgot its place, if that can be found."""
        if self._after is None:
            if self._before is None:
                self._before = self._look_back(number, body)
            if number.chunk <= self._before.chunk:
                return
            self._after = self._before.end
        self._after = self._find(number, fields, self._after)

    def _look_back(self, number: ChunkNumber, body: bytes) -> _SeenLog:
        """Return what was there when this attempt began: it begins with a chunk that is passed."""
        end = self._asking.end()
        try:
            self._asking.append(body)
        except PassedError as error:
            return _SeenLog(end, self._check_batch(number, error))
        raise AssertionError("numbers grow: what the log has passed stays passed")

    def _find(self, number: ChunkNumber, fields: Sequence[Fields], start: int) -> int:
        """Return the offset after a chunk, which another attempt has written after `start`."""
        end, search = self._asking.end(), ChunkSearch(fields)
        at = start
        while at < end:
            page = self._asking.read(at, min(CHUNK_RECORDS, end - at))
            at += len(page)
            left = search.find(page)
            if left is not None:
                return at - left
        raise self._changed(f"chunk {number.chunk} is not between offsets {start} and {end}")

    def _changed(self, reason: str) -> RowsChangedError:
        return RowsChangedError(self._log, self._job, reason)


class _ThroughLeader:
    """The common part of batches and streams; sent to every task."""

    def __init__(self, options: LeaderOptions) -> None:
        self._options = options

    def _write(self, batches: Iterator[Any], query: str, number: int) -> SentChunks:
        context = TaskContext.get()
        assert context is not None, "Spark writes in tasks"
        producer = producer_of(self._options.job, query, context.partitionId())
        connections = Connections()
        asking = Asking(self._options.gateways, connections)
        try:
            sender = ChunkSender(asking, self._options, producer, number)
            return sender.send(rows_in(map(rows_of, batches)))
        finally:
            connections.close()

    def _report_abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        sent = sum(each.records for each in messages if isinstance(each, SentChunks))
        _log.warning(
            "job %r failed: %d records of its finished tasks stay in log %r; repeat the job, and "
            "it writes the others",
            *(self._options.job, sent, self._options.gateways.log),
        )


@reporting
class LeaderWriter(_ThroughLeader, DataSourceArrowWriter):
    """Writes a data frame."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write a partition's rows, in a worker."""
        return self._write(iterator, "", self._options.sequence)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: the records are in the log."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Tell what stays."""
        self._report_abort(messages)


@reporting
class LeaderStreamWriter(_ThroughLeader, DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query."""

    def __init__(self, options: LeaderOptions) -> None:
        if options.sequence:
            raise ConfigurationError("leave out option sequence: a stream numbers its batches")
        super().__init__(options)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write a partition's rows, in a worker."""
        query, number = running_query(), running_batch()
        if query == UNKNOWN_QUERY or number is None:
            raise ConfigurationError(
                f"Spark does not tell the task its query and batch: mode={MODE} cannot recognize "
                "a repeated batch; leave the mode out"
            )
        return self._write(iterator, query, number)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Check that the tasks knew the batch. Raises `InvalidRequestError`."""
        numbers = {each.batch for each in messages if isinstance(each, SentChunks)}
        if numbers - {batchId}:
            raise InvalidRequestError(
                f"tasks of batch {batchId} wrote under the numbers {sorted(numbers)}: the next "
                "batches would not be recognized; leave the mode out"
            )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Tell what stays."""
        self._report_abort(messages)


def running_batch() -> int | None:
    """The number of this task's micro-batch; None where Spark does not say."""
    context = TaskContext.get()
    found = context.getLocalProperty(_BATCH_PROPERTY) if context is not None else None
    return int(found) if found else None


def _mode(text: str) -> Any:
    if text != MODE:
        raise ValueError(f"write {MODE}, or leave the option out to write whole jobs or nothing")


def _one_log(text: str) -> str:
    if is_pattern(text):
        raise ValueError("a write goes to one log, named without a pattern or blanks around it")
    return text


def _urls(given: Given) -> tuple[str, ...]:
    """Return the URLs of gateways, whose passwords no error may show."""
    if "@" in given.get("gateway", str, ""):
        raise ConfigurationError(
            "option gateway has a name or password before @, which a gateway does not take: give "
            "URLs such as http://host:8180, and a token in option token"
        )
    return given.get("gateway", parse_gateways, ())


def _token(given: Given) -> str | None:
    """Return the token, which no error may show."""
    text = given.get("token", str, "")
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise ConfigurationError(
            "option token is not a token: write it as the gateway's --token-file has it"
        )
    return text or None


def _timeout(text: str) -> float:
    seconds = parse_seconds(text)
    if not 1 <= seconds <= 3600:
        raise ValueError("write seconds from 1 to 3600, such as 120")
    return seconds


def _sequence(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > BATCH_MAX:
        raise ValueError(f"write a whole number from 0 to {BATCH_MAX}")
    return int(text)
