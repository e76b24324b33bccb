"""Following logs with a streaming query.

A batch is the records between two places of every log (progress.py). Spark writes the places down
before it runs the batch, and records at places never change; so a query that is killed and started
again from its checkpoint gives its sink the same batches again, and a sink that knows batches by
their number has every record exactly once.

All methods but `read` run in one long-lived process beside the driver. An error of theirs ends the
query, so they wait for transient failures to pass.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, Final, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from quire.errors import (
    BehindError,
    LogReplacedError,
    NoSuchLogError,
    PositionTrimmedError,
    UnreadableError,
)
from quire.log.reading.bounds import Bounds
from quire.log.reading.ends import LogReach
from quire.log.reading.span import Slice, Span
from quire.log.records.position import BEGINNING, Position
from quire.spark.batch import SpanPartition, read_partition
from quire.spark.beginning import check_beginning
from quire.spark.clients import worker_client, worker_keyring
from quire.spark.ending import end_of
from quire.spark.errors import reporting
from quire.spark.holding import Holding
from quire.spark.offsets import End
from quire.spark.options import ReadOptions
from quire.spark.packing import pack
from quire.spark.patience import patiently, patiently_each
from quire.spark.progress import (
    Place,
    Progress,
    admit,
    available,
    from_json,
    reached,
    start_of,
    to_json,
)
from quire.spark.versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from quire.steady import own_clock
from quire.sync import SyncClient

R = TypeVar("R")
T = TypeVar("T")

_log: Final = logging.getLogger(__name__)


@reporting
class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches beside the driver, reads them in the workers."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._target: dict[str, int] | None = None
        self._holding = Holding(options.minimum)
        self._committed: Progress = {}
        """The places to which this object has moved the cursors."""
        self._clock = own_clock(Random()).seconds
        self._reached: Progress | None = None
        """Where the query is, as far as Spark has said: before 4.2 it does not say it again."""

    # Places. The names are Spark's.

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where a query without a checkpoint begins."""
        logs = patiently(self._logs)
        self._options.check_offsets(logs)
        places = self._each(partial(self._begin, at_first=True), logs)
        found = zip(logs, places, strict=True)
        self._reached = {log: place for log, place in found if place is not None}
        return to_json(self._reached)

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Return where the next batch ends. Before 4.2 Spark gives neither argument."""
        if start is None and self._reached is None:
            return to_json(patiently(self._unsure_ends))
        began = from_json(start) if start is not None else self._reached
        assert began is not None
        limit = limit or self.getDefaultReadLimit()
        ends = patiently(self._ends, began)
        if self._target is not None:
            ends = {
                log: end.at(
                    min(end.offset, max(self._target.get(log, 0), start_of(began, log, end)))
                )
                for log, end in ends.items()
                if log in self._target or log in began
            }
        elif self._holding.holds(available(began, ends), self._clock()):
            return to_json(began)
        records_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return to_json(admit(began, ends, records_max))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit that the options set."""
        records = self._options.records_per_trigger
        return ReadAllAvailable() if records is None else ReadMaxRows(records)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember what there is now: the query ends when it has read as much."""
        logs = patiently(self._logs)
        self._target = dict(zip(logs, self._each(self._end, logs), strict=True))

    def _logs(self) -> list[str]:
        return self._options.select(self._client.list_logs())

    @property
    def _client(self) -> SyncClient:
        return worker_client(self._options.cluster)

    def _each(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Do something about each item, some at a time; `patiently_each` has the terms."""
        patiently(worker_client, self._options.cluster)  # one for all threads
        return patiently_each(work, items)

    def _begin(self, log: str, *, at_first: bool = False) -> Place | None:
        """Where a query begins; None for a log that a pattern named, and that was deleted since.

        Only a query's first look begins at the end of a log (`latest`): the records of a log that
        is found later are all new to the query.
        """
        try:
            if at_first and self._options.starting.of(log) is End.LATEST:
                return self._last(log)
            return self._first(log)
        except NoSuchLogError:
            if log in self._options.logs:
                raise
            return None

    def _first(self, log: str) -> Place:
        """Where a query begins that has not seen a log: at the first record within its bounds.

        Raises `PositionTrimmedError` when the place that its options name was trimmed.
        """
        place = self._first_left(log, self._options.bounds_of(log))
        check_beginning(self._client, log, self._options)
        return place

    def _last(self, log: str) -> Place:
        """Where a query begins that wants only later records."""
        log_id = self._client._logs.describe(log).log_id
        end = self._decided_end(log)
        return Place(log_id, end, end)

    def _first_left(self, log: str, bounds: Bounds) -> Place:
        """Where a query begins, or at the first record after it that was not trimmed."""
        manifest = self._client._logs.describe(log)
        end = self._end(log)  # before the snapshot: later appends are in neither
        found = self._first_slice(self._snapshot(log, bounds))
        # Records before the wanted offset stay unwanted, also if the log is still empty.
        begin = max(end, bounds.first_offset)
        first = begin if found is None else _offset_of(found)
        return Place(manifest.log_id, first, first)

    def _end(self, log: str) -> int:
        """The offset after the last record that can be read now; 0 for a log that may be gone."""
        try:
            return end_of(self._client, log, self._options.password)
        except NoSuchLogError:
            if self._options.fail_on_data_loss and log in self._options.logs:
                raise
            return 0

    def _ends(self, began: Progress) -> Progress:
        """The places after all records that can be read now, never before the query's beginning."""
        ends: Progress = {}
        follows: Progress = {}
        for log in sorted({*self._logs(), *began}):
            if log in began and not self._options.means(log):
                ends[log] = began[log]  # the query went on without it, and may come back to it
            elif (place := began.get(log) or self._begin(log)) is not None:
                follows[log] = place
        for log, reach in self._reaches(follows).items():
            ends[log] = self._end_of(log, follows[log], reach)
        return ends

    def _reaches(self, places: Progress) -> dict[str, LogReach | None]:
        """How far logs reach, never before the places.

        A query that ends at a target asks: it would end before the target if news were late.
        """
        offsets = {log: place.offset for log, place in places.items()}
        fresh = self._target is not None
        return self._client._logs.ends(offsets, password=self._options.password, fresh=fresh)

    def _end_of(self, log: str, place: Place, reach: LogReach | None) -> Place:
        """The place after all records of a log, or of the log that has taken its name."""
        if reach is not None and reach.log_id == place.id:
            return place.at(reach.offset)
        if self._options.fail_on_data_loss:
            raise NoSuchLogError(log) if reach is None else LogReplacedError(log)
        if reach is None:
            return place
        _log.warning(
            "log %r was deleted and recreated: the query goes on with the new log from its "
            "first record; records of the old log after offset %d were not read",
            log, place.offset - 1,
        )  # fmt: skip
        with suppress(NoSuchLogError):  # deleted again: the next look
            again = self._first_left(log, self._recreated_bounds)
            reach = self._reaches({log: again})[log]
            if reach is not None and reach.log_id == again.id:
                return again.at(reach.offset)
        return place

    @property
    def _recreated_bounds(self) -> Bounds:
        """Bounds in a recreated log: the options' offsets and positions mean another log's."""
        return Bounds(first_ms=self._options.bounds.first_ms)

    def _unsure_ends(self) -> Progress:
        """The places after all records, of a query whose beginning is not known."""
        ends: Progress = {}
        for log in self._logs():
            with suppress(NoSuchLogError):  # whether the query has read it, `partitions` will know
                place = self._first_left(log, self._options.bounds_of(log))
                ends[log] = place.at(max(place.offset, self._decided_end(log))).unsure()
        return ends

    def _decided_end(self, log: str) -> int:
        """The offset after the last record, which no earlier answer was above.

        A snapshot may be below one that the query has read to, and Spark would read that part
        again.
        """
        try:
            password = self._options.password
            return self._client.log_end(log, linearizable=True, password=password).offset
        except UnreadableError:  # its writer died: a snapshot is what there is
            return self._end(log)

    def _snapshot(self, log: str, bounds: Bounds) -> list[Span]:
        return self._client.snapshot_log(log, password=self._options.password, bounds=bounds)

    # Batches.

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Cut a batch into ranges of entries."""
        began, ends = from_json(start), from_json(end)
        if self._options.fail_on_data_loss:
            self._check_seen(began, ends)
        self._reached = reached(began, ends)
        wanted = [
            (log, place, offsets)
            for log, place in ends.items()
            if (offsets := range(start_of(began, log, place), place.offset))
        ]
        plans = self._each(lambda part: self._plan(*part), wanted)
        found = [span for plan in plans for span in plan]
        return [SpanPartition(packed) for packed in pack(found, self._options.limits)]

    def _check_seen(self, began: Progress, ends: Progress) -> None:
        """Raise when an end that was found without the beginning does not belong to it.

        A log without an end is gone, or new: Spark asks again where a first batch begins.
        """
        for log, place in began.items():
            end = ends.get(log)
            if end is None and self._options.means(log):
                patiently(self._client._logs.describe, log)
            if end is not None and end.id != place.id:
                raise LogReplacedError(log)

    def _plan(self, log: str, place: Place, wanted: range) -> list[Span]:
        bounds = Bounds(first_offset=wanted.start, end_offset=wanted.stop)
        try:
            spans = self._snapshot(log, bounds)
            self._check(log, place, wanted, spans)
        except (NoSuchLogError, LogReplacedError) as error:
            if self._options.fail_on_data_loss:
                raise
            _log.warning("offsets %d to %d are lost: %s", wanted.start, wanted.stop - 1, error)
            return []
        return spans

    def _check(self, log: str, place: Place, wanted: range, spans: list[Span]) -> None:
        """Raise when the spans do not hold every record that is wanted, or another log's."""
        manifest = self._client._logs.describe(log)
        if manifest.log_id != place.id:
            raise LogReplacedError(log)
        behind = spans[-1].offsets.stop if spans else self._end(log)
        if behind < wanted.stop:
            raise BehindError(log, wanted.stop, behind)
        if not self._options.fail_on_data_loss:
            return
        trimmed = manifest.trimmed_to
        if not spans or (trimmed != BEGINNING and spans[0].segment == trimmed.segment):
            piece = self._first_slice(spans)
            found = wanted.stop if piece is None else _offset_of(piece)
        else:
            found = spans[0].offsets.start
        if found > wanted.start:
            first = f"{manifest.first_position} (or give failOnDataLoss=false)"
            raise PositionTrimmedError(log, f"offset {wanted.start}", first)

    def _first_slice(self, spans: list[Span]) -> Slice | None:
        """The first records within the bounds of spans; None where an entry lies at both ends."""
        keyring = worker_keyring(self._options.key_file)
        for span in spans:
            slices = self._client.read_span(span, password=self._options.password, keyring=keyring)
            for piece in slices:
                return piece
        return None

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the records of a range as Arrow record batches."""
        yield from read_partition(self._options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Move the cursor after the records that the query has finished permanently.

        Spark calls this when it begins the next batch, so the cursor lags by one batch.
        """
        if self._options.cursor is not None:
            places, before = from_json(end), self._committed
            moved = [each for each in places.items() if before.get(each[0]) != each[1]]
            self._each(lambda each: self._advance(*each), moved)
            self._committed = places

    def _advance(self, log: str, place: Place) -> None:
        assert self._options.cursor is not None
        # The next batch reports a log that is gone or was recreated.
        with suppress(NoSuchLogError, LogReplacedError):
            if self._client._logs.describe(log).log_id != place.id:
                return
            cursors = self._client.log_cursors(log, password=self._options.password)
            cursor = cursors.open(self._options.cursor)
            last = Bounds(first_offset=place.offset - 1, end_offset=place.offset)
            spans = self._snapshot(log, last) if place.offset > place.first else []
            piece = self._first_slice(spans)
            if piece is not None and cursor.log_id == place.id:
                cursor.advance(Position(spans[0].segment, piece.entry, piece.slots.stop))


def _offset_of(piece: Slice) -> int:
    return piece.batch.header.first_offset + piece.slots.start
