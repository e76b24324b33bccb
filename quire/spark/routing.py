"""Writing rows to the logs that a column of the data frame names.

A log is written whole or not at all, and each log remembers the job. A manifest is changed by
itself, so several logs do not change in one moment: a write that fails halfway has written some of
them. The same job, repeated, writes the others and leaves these as they are. That is why a write
with a column `log` needs a job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from quire.errors import InvalidRequestError, QuireError
from quire.log.records.arrow_rows import RecordRows, rows_of
from quire.spark.clients import worker_client
from quire.spark.errors import reporting
from quire.spark.options import WriteOptions, is_pattern
from quire.spark.versions import DataSourceStreamArrowWriter
from quire.spark.writer import LogStreamWriter, LogWriter, Parts, PartWriter

WAITING_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes that a task keeps for all its logs before it sends the largest to the bookies."""

COMMITS_MAX: Final = 8
"""Logs that the driver commits at the same time."""

OneLog = LogWriter | LogStreamWriter


@dataclass(frozen=True)
class Routed(WriterCommitMessage):
    """The parts that a task wrote, by log."""

    by_log: tuple[tuple[str, Parts], ...]


class _Routing:
    """The common part of batches and streams; sent to every task."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def _route(self, batches: Iterator[Any], writer_of: Callable[[str], OneLog]) -> Routed:
        """Write a partition's rows, in a worker."""
        found: dict[str, Parts] = {}
        open_ones: dict[str, tuple[OneLog, PartWriter]] = {}
        try:
            for batch in batches:
                for log, rows in rows_by_log(batch):
                    if log not in open_ones and log not in found:
                        writer = writer_of(log)
                        if writer.has_done():
                            found[log] = Parts(())
                            continue
                        open_ones[log] = writer, writer.begin()
                    if log in open_ones:
                        open_ones[log][1].add(rows)
                _relieve([part for _, part in open_ones.values()])
            found |= {log: writer.end(part) for log, (writer, part) in open_ones.items()}
            return Routed(tuple(sorted(found.items(), key=lambda each: each[0])))
        except BaseException:
            for _, part in open_ones.values():
                part.abandon()
            raise

    def _commit(
        self,
        messages: Sequence[WriterCommitMessage | None],
        commit: Callable[[str, list[WriterCommitMessage | None]], None],
    ) -> None:
        """Commit each log. Raises the error of the first log that failed, after all the others."""
        parts = _parts_by_log(messages)
        worker_client(self._options.cluster)  # one for all threads
        with ThreadPoolExecutor(COMMITS_MAX) as pool:
            done = {log: pool.submit(commit, log, list(parts[log])) for log in sorted(parts)}
        errors = {log: future.exception() for log, future in done.items()}
        failed = [log for log in sorted(errors) if errors[log] is not None]
        if not failed:
            return
        error = errors[failed[0]]
        assert error is not None
        if isinstance(error, QuireError) and len(failed) < len(done):
            error.add_note(
                f"{len(done) - len(failed)} of {len(done)} logs were written; repeat the job, and "
                f"it writes the others: {', '.join(failed)}"
            )
        raise error

    def _abort(
        self,
        messages: Sequence[WriterCommitMessage | None],
        drop: Callable[[str], None],
    ) -> None:
        """Delete the ledgers that the tasks wrote; a task that failed did not name its logs."""
        client = worker_client(self._options.cluster)
        for log in sorted({*_parts_by_log(messages), *client._logs.with_parts()}):
            drop(log)


@reporting
class RoutedWriter(_Routing, DataSourceArrowWriter):
    """Writes a data frame."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write a partition's rows, in a worker."""
        return self._route(iterator, self._writer)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Put the rows of each log into it, all or none."""
        self._commit(messages, lambda log, parts: self._writer(log).commit(parts))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete the ledgers that the tasks wrote."""
        self._abort(messages, lambda log: self._writer(log).abort([]))

    def _writer(self, log: str) -> LogWriter:
        return LogWriter(self._options.to(log))


@reporting
class RoutedStreamWriter(_Routing, DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write a partition's rows, in a worker."""
        return self._route(iterator, self._writer)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Put the batch's rows of each log into it, unless they are there."""
        self._commit(messages, lambda log, parts: self._writer(log).commit(parts, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Delete the ledgers that the tasks wrote."""
        self._abort(messages, lambda log: self._writer(log).abort([], batchId))

    def _writer(self, log: str) -> LogStreamWriter:
        return LogStreamWriter(self._options.to(log))


def rows_by_log(batch: pa.RecordBatch) -> Iterator[tuple[str, RecordRows]]:
    """Yield the rows of a batch by log, each log's in their order.

    Raises `InvalidRequestError` for a row that names no log, or a pattern.
    """
    logs = batch.column("log")
    for log in sorted(logs.unique().to_pylist(), key=lambda name: name or ""):
        if not log or is_pattern(log):
            raise InvalidRequestError(
                f"column log is {log!r} in a row: a row names one log, without a pattern or blanks "
                "around it; filter out the others"
            )
        yield log, rows_of(batch.filter(pc.equal(logs, log)))


def _parts_by_log(
    messages: Sequence[WriterCommitMessage | None],
) -> dict[str, list[WriterCommitMessage | None]]:
    found: dict[str, list[WriterCommitMessage | None]] = {}
    for message in messages:
        if isinstance(message, Routed):
            for log, parts in message.by_log:
                found.setdefault(log, []).append(parts)
    return found


def _relieve(parts: Sequence[PartWriter]) -> None:
    """Keep the bytes that wait in a worker below their bound."""
    waiting = sum(part.waiting_bytes for part in parts)
    for part in sorted(parts, key=lambda each: -each.waiting_bytes):
        if waiting <= WAITING_BYTES_MAX:
            return
        waiting -= part.waiting_bytes
        part.flush()
