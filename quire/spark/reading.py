"""Reading and counting the part of a log that a condition names, instead of filtering all of it.

Spark evaluates a filter on every row that a source gives, and quire takes no filters from it
(docs/decisions/0017-spark-pushes-no-filters.md). Here the condition belongs to the frame: it
becomes the options of the read, and so it holds for all uses of the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession

import quire.sync
from quire.errors import ConfigurationError
from quire.log.reading.bounds import TIME_MAX_MS
from quire.log.reading.span import Slice, Span
from quire.log.records.position import Position
from quire.log.records.txids import first_slot
from quire.spark.batch import snapshots
from quire.spark.clients import worker_keyring
from quire.spark.options import LOG_COLUMNS, ReadOptions, is_pattern
from quire.spark.where import VALUE_MAX, ColumnRange, Condition, parse_where
from quire.sync import SyncClient

T = TypeVar("T")


def read(
    spark: SparkSession,
    log: str,
    *,
    cluster: str,
    where: str = "",
    columns: Sequence[str] = (),
    **options: object,
) -> DataFrame:
    """Return a data frame of the records that a condition names; other records are not read.

    Args:
        spark: the session.
        log: name of the log; names and patterns as the option `log` has them, without txids.
        cluster: as the option `cluster`.
        where: terms over `offset`, `timestamp`, `txid` and `segment`, joined by `and`:
            `"offset >= 1000 and timestamp < '2026-11-21T10:00:00Z'"`.
        columns: the columns of the frame; all by default. Spark reads these and no others.
        options: further options of format `quire`.

    Returns:
        A frame. A condition with `txid` ends at the log's end as of this call.

    Raises:
        InvalidRequestError: the condition is not understood; the error names the place.
        ConfigurationError: an option and the condition name a part, or a txid is looked for in
            several logs, or a column does not exist.
        QuireError: the errors of connecting and reading, if the condition names `txid`.

    Cancellation: nothing to undo.

    Guarantees: records that were trimmed are not in the frame; that is no error unless
        `failOnDataLoss` is given. The log's writer is not disturbed.
    """
    given = _options(log, cluster, where, options)
    shown = list(columns) or list(LOG_COLUMNS)
    needed = [name for name in parse_where(where).given() if name not in shown]
    reader = spark.read.format("quire").options(**given)
    frame = reader.option("columns", ",".join([*shown, *needed])).load()
    if where.strip():
        frame = frame.where(where)
    return frame.select(*shown) if needed else frame


def count(log: str, *, cluster: str, where: str = "", **options: object) -> int:
    """Count the records that a condition names, by the metadata and without Spark.

    A segment that lies within the condition is counted by the manifest. Of a segment that does so
    in part the first and the last entry are read.

    Args:
        log: as for `read`.
        cluster: as the option `cluster`; it must be reachable from this process.
        where: as for `read`.
        options: further options of a read.

    Returns:
        How many records `read` would give now.

    Raises:
        InvalidRequestError, ConfigurationError: as for `read`.
        NoSuchLogError: no such log.
        QuireError: the errors of connecting and reading.

    Cancellation: nothing to undo.

    Guarantees: the log's writer is not disturbed.
    """
    parsed = ReadOptions.parse(_options(log, cluster, where, options))
    with quire.sync.connect(cluster) as client:
        spans = snapshots(client, parsed)
        ends = {name: _ends(client, name) for name in sorted({span.log for span in spans})}
        return sum(
            _records(client, parsed, span, ends[span.log].get(span.segment)) for span in spans
        )


def _options(log: str, cluster: str, where: str, options: dict[str, object]) -> dict[str, str]:
    given = {"cluster": cluster, "log": log, **{key: _text(options[key]) for key in options}}
    wanted = parse_where(where)
    parsed = ReadOptions.parse(given)  # a wrong option is named before it is used
    if wanted.given() and not parsed.is_unbounded:
        raise ConfigurationError(
            "give the part to read in where=… or in options such as fromOffset, not in both"
        )
    if wanted.txid is not None:
        wanted = _without_txids(wanted, wanted.txid, parsed, log)
    if wanted.given() and "failondataloss" not in {key.lower() for key in given}:
        given["failOnDataLoss"] = "false"
    return given | wanted.options()


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _without_txids(
    wanted: Condition, txid: ColumnRange, options: ReadOptions, log: str
) -> Condition:
    """Find the offsets of the records with the wanted txids, in a snapshot."""
    if is_pattern(log):
        raise ConfigurationError(
            f"txids count within a log: name one log instead of {log!r}, or use .where(…)"
        )
    with quire.sync.connect(options.cluster) as client:
        spans = client.snapshot_log(log, password=options.password)

        def place(least: int) -> int:
            return _first_offset_with(client, options, spans, least)

        end, is_open = spans[-1].offsets.stop if spans else 0, txid.end == VALUE_MAX
        return wanted.in_offsets(place(txid.first), end if is_open else place(txid.end))


def _first_offset_with(
    client: SyncClient, options: ReadOptions, spans: Sequence[Span], txid: int
) -> int:
    """Return the offset of the first record with this txid or a higher one; the end without one."""

    def is_below(span: Span, entry: int) -> bool:
        piece = _entry(client, options, span, entry)
        return piece is None or piece.batch.last_txid < txid

    found = _bisect(spans, lambda span: not is_below(span, span.last))
    if found == len(spans):
        return spans[-1].offsets.stop if spans else 0
    span = spans[found]
    entries = range(span.first, span.last + 1)
    piece = _entry(
        client, options, span, entries[_bisect(entries, lambda entry: not is_below(span, entry))]
    )
    assert piece is not None, "its last txid was read a moment ago"
    header = piece.batch.header
    return header.first_offset + first_slot(piece.batch.txids, header.count, txid)


def _bisect(items: Sequence[T], is_reached: Callable[[T], bool]) -> int:
    low, high = 0, len(items)
    while low < high:
        middle = (low + high) // 2
        if is_reached(items[middle]):
            high = middle
        else:
            low = middle + 1
    return low


def _entry(client: SyncClient, options: ReadOptions, span: Span, entry: int) -> Slice | None:
    """The wanted records of an entry; None where there are none."""
    keyring, part = worker_keyring(options.key_file), span.narrow(entry, entry)
    return next(iter(client.read_span(part, password=options.password, keyring=keyring)), None)


def _ends(client: SyncClient, log: str) -> dict[int, int | None]:
    """Return the last entry of each segment, None while it is open."""
    return {each.number: each.last_entry for each in client._logs.describe(log).segments}


def _records(client: SyncClient, options: ReadOptions, span: Span, last: int | None) -> int:
    """Return how many records of a span are within its bounds."""
    bounds, offsets, number = span.bounds, span.offsets, span.segment
    first = max(offsets.start, bounds.first_offset)
    is_cut = bounds.first > Position(number, 0, 0) or (span.first > 0 and bounds.first_ms > 0)
    if is_cut:  # somewhere inside, and not by its offset alone
        piece = _entry(client, options, span, span.first)
        if piece is None:
            return 0
        first = piece.batch.header.first_offset + piece.slots.start
    end = min(offsets.stop, bounds.end_offset)
    if bounds.end.segment <= number or (bounds.end_ms < TIME_MAX_MS and span.last != last):
        piece = _entry(client, options, span, span.last)
        if piece is None:
            return 0
        end = piece.batch.header.first_offset + piece.slots.stop
    return max(0, end - first)
