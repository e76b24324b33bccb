"""Packs the spans of a snapshot into partitions: one task reads several small segments. Pieces of
ledgers of another system (`quire/bookkeeper/pieces.py`) are packed alike.

Starting a task costs Spark about 50 ms, and opening a segment costs a few round trips. So a
partition takes consecutive spans until it has enough to do. A segment counts as its bytes and an
opening cost: a partition of many small segments is finished as soon as a partition of one large
segment.

Invariants:
  - The partitions, one after the other, are the spans in their order: each entry is in one.
  - A partition exceeds a limit only by its one entry: entries are not cut. It exceeds `split_bytes`
    too where that would cut a span into more than `PIECES_MAX`.
  - `partitions_min` is reached unless there are fewer entries.

Sizes inside a segment are estimated, as if its entries were equal. Pure: no clock and no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import accumulate
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from quire.log.reading.span import Span

SPLIT_BYTES: Final = 64 * 1024 * 1024
"""A task reads as much: a second or two, so that the last task does not keep others waiting."""

OPENING_BYTES: Final = 256 * 1024
"""Opening a segment takes about 2 ms; a task reads as many bytes in that time."""

OPEN_ENTRY_BYTES: Final = 16 * 1024
"""A guess for entries of a segment that is still written: its length is not known. A full one has
64 KiB, a lone record has less.
"""


PIECES_MAX: Final = 100_000
"""Pieces of a span by bytes: 6 TiB at 64 MiB each, which are planned in 3 s. A damaged record may
claim any size, and a plan for it would fill the driver's memory before a task looks at the ledger.
"""


class Packable(Protocol):
    """Entries `first` … `last` of a ledger."""

    @property
    def first(self) -> int: ...

    @property
    def last(self) -> int: ...

    @property
    def size(self) -> int | None:
        """Bytes, estimated; None for a ledger that is still written."""

    @property
    def records(self) -> int:
        """How many records are wanted, estimated."""

    def split_into(self: S, pieces: int) -> list[S]:
        """Return parts of about the same number of entries, in order."""


S = TypeVar("S", bound=Packable)

Packed: TypeAlias = tuple[Span, ...]
"""The spans of one partition, in order."""


@dataclass(frozen=True, slots=True)
class PartitionLimits:
    """How large partitions should be."""

    split_bytes: int = SPLIT_BYTES
    partitions_min: int = 1
    records_max: int | None = None
    """Records of a partition; entries are not cut, and entries of a segment count as equal."""


@dataclass(frozen=True, slots=True)
class _Piece(Generic[S]):
    """A part of a span. `place` orders pieces as the log has them."""

    place: tuple[int, int]
    span: S
    bytes: int
    records: int

    @property
    def cost(self) -> int:
        return OPENING_BYTES + self.bytes

    @property
    def entries(self) -> int:
        return self.span.last - self.span.first + 1

    def cut(self, pieces: int) -> list[_Piece[S]]:
        """Return so many pieces of about the same number of entries."""
        spans = self.span.split_into(pieces)
        size, records = -(-self.bytes // pieces), -(-self.records // pieces)
        return [_Piece((self.place[0], span.first), span, size, records) for span in spans]


def pack(spans: Sequence[S], limits: PartitionLimits) -> list[tuple[S, ...]]:
    """Return the partitions of some spans, in order."""
    whole = [_piece_of(index, span) for index, span in enumerate(spans)]
    share = -(-sum(piece.cost for piece in whole) // limits.partitions_min)
    bytes_max = max(1, min(limits.split_bytes, share))
    pieces = [part for piece in whole for part in _cut(piece, bytes_max, limits.records_max)]
    partitions = list(_gather(pieces, bytes_max, limits.records_max))
    return [
        tuple(piece.span for piece in partition)
        for partition in _divide(partitions, limits.partitions_min)
    ]


def _piece_of(index: int, span: S) -> _Piece[S]:
    size = span.size
    if size is None:
        size = (span.last - span.first + 1) * OPEN_ENTRY_BYTES
    return _Piece((index, span.first), span, size, span.records)


def _cut(piece: _Piece[S], bytes_max: int, records_max: int | None) -> list[_Piece[S]]:
    pieces = min(-(-piece.bytes // bytes_max), PIECES_MAX)
    if records_max is not None:
        pieces = max(pieces, -(-piece.records // records_max))
    return piece.cut(min(max(1, pieces), piece.entries))


def _gather(
    pieces: Iterable[_Piece[S]], bytes_max: int, records_max: int | None
) -> Iterator[list[_Piece[S]]]:
    """Put consecutive pieces together as long as they stay within the limits."""
    together: list[_Piece[S]] = []
    cost = records = 0
    for piece in pieces:
        is_full = cost + piece.cost > bytes_max
        if records_max is not None:
            is_full = is_full or records + piece.records > records_max
        if together and is_full:
            yield together
            together, cost, records = [], 0, 0
        together.append(piece)
        cost, records = cost + piece.cost, records + piece.records
    if together:
        yield together


def _divide(partitions: list[list[_Piece[S]]], partitions_min: int) -> list[list[_Piece[S]]]:
    """Divide the most expensive partition until there are enough of them."""
    whole = [each for each in partitions if not _is_divisible(each)]
    waiting = [(-_cost(each), each[0].place, each) for each in partitions if _is_divisible(each)]
    heapify(waiting)
    while waiting and len(whole) + len(waiting) < partitions_min:
        for half in _halves(heappop(waiting)[2]):
            if _is_divisible(half):
                heappush(waiting, (-_cost(half), half[0].place, half))
            else:
                whole.append(half)
    whole += [each for _, _, each in waiting]
    return sorted(whole, key=lambda each: each[0].place)


def _is_divisible(partition: list[_Piece[S]]) -> bool:
    return len(partition) > 1 or partition[0].entries > 1


def _cost(partition: list[_Piece[S]]) -> int:
    return sum(piece.cost for piece in partition)


def _halves(partition: list[_Piece[S]]) -> tuple[list[_Piece[S]], list[_Piece[S]]]:
    if len(partition) == 1:
        first, last = partition[0].cut(2)
        return [first], [last]
    half = _cost(partition) / 2
    behind = [cost <= half for cost in accumulate(piece.cost for piece in partition)]
    at = min(max(1, sum(behind)), len(partition) - 1)
    return partition[:at], partition[at:]
