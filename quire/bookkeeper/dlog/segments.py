"""The records of a log's segments. Pure.

Numbers between semicolons; the count of fields tells an open segment from a complete one.

    version  open                          complete
    2        head;ledger;first;number      head;ledger;first;last;ms;number;entry;slot
    3, 4     … ;min entry;min slot         … ;min entry;min slot
    5        … ;start                      … ;start

    head     bits 0–7 version, 8–9 truncation (0 none, 1 in part, 2 whole), 32–63 count of records
    first, last   transaction ids       ms   time of completion
    entry, slot   the last record       min  the first record left after a truncation in part
    start    the sequence number of the first record

Entries of versions 2 and 3 hold bare records, later ones packets of them. Version 1 does
not number segments.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from quire.bookkeeper.dlog.names import Dlsn
from quire.errors import CorruptRecordError, UnreadableContentError

NEWEST: Final = 5
OLDEST: Final = 2
ENVELOPED: Final = 4
"""The first version with packets as entries."""

_FIELDS: Final = {2: (4, 8), 3: (6, 10), 4: (6, 10), 5: (7, 11)}
_TEXT: Final = re.compile(r"-?[0-9]{1,19}(;-?[0-9]{1,19})*")
_INT64: Final = 2**63
_START_MAX: Final = 2**62
"""The highest start of a segment: no position in it makes a sequence number of over 64 bits."""
_UNASSIGNED: Final = -1
_ACTIVE, _PARTIAL, _WHOLE, _UNKNOWN = range(4)


@dataclass(frozen=True, slots=True)
class DlogSegment:
    """One segment of a log."""

    path: str
    number: int
    ledger: int
    version: int
    truncation: int
    begin: Dlsn
    """The first record that is left, if the segment is truncated in part."""
    last_txid: int | None
    """The last transaction id, None while the segment is open."""
    count: int
    last_entry: int
    """The last entry with a record; −1 while the segment is open, or without records."""
    start: int | None
    """The sequence number of the first record, None if the log has none."""

    @property
    def is_complete(self) -> bool:
        """Whether its writer completed it."""
        return self.last_txid is not None

    @property
    def is_truncated(self) -> bool:
        """Whether all of it is truncated; its ledger may be gone."""
        return self.truncation == _WHOLE

    @property
    def is_enveloped(self) -> bool:
        """Whether its entries are packets of records."""
        return self.version >= ENVELOPED


def decode_segment(path: str, data: bytes) -> DlogSegment:
    """Return a segment from its record.

    Raises:
        CorruptRecordError: the record is damaged.
        UnreadableContentError: its version is not known, or was given up.
    """
    text = data.decode("ascii", errors="replace")
    if not _TEXT.fullmatch(text):
        raise CorruptRecordError(path, f"{data[:60]!r} is not numbers between semicolons")
    head, *fields = (int(field) for field in text.split(";"))
    for number in (head, *fields):
        if not -_INT64 <= number < _INT64:
            raise CorruptRecordError(path, f"its number {number} has more than 64 bits")
    version = head & 0xFF
    if version not in _FIELDS:
        raise UnreadableContentError(
            f"segment {path}",
            f"has a record of version {version}",
            f"quire reads versions {OLDEST} to {NEWEST}: read it with DistributedLog's library",
        )
    opened, complete = _FIELDS[version]
    if len(fields) + 1 not in (opened, complete):
        raise CorruptRecordError(
            path, f"version {version} has {opened} or {complete} fields, not {len(fields) + 1}"
        )
    segment = _segment(path, head, fields, is_complete=len(fields) + 1 == complete)
    if _is_impossible(segment):
        raise CorruptRecordError(path, f"{text!r} has an impossible number or truncation")
    return segment


def _is_impossible(segment: DlogSegment) -> bool:
    if segment.truncation == _UNKNOWN or min(segment.number, segment.ledger, segment.count) < 0:
        return True
    if segment.start is not None and not 0 <= segment.start <= _START_MAX:
        return True
    if segment.truncation != _PARTIAL:
        return False
    begin = segment.begin
    is_after_end = segment.is_complete and begin.entry > segment.last_entry
    return min(begin.entry, begin.slot) < 0 or is_after_end


def _segment(path: str, head: int, fields: Sequence[int], *, is_complete: bool) -> DlogSegment:
    version = head & 0xFF
    rest = iter(fields)
    ledger, _first = next(rest), next(rest)
    last_txid = next(rest) if is_complete else None
    if is_complete:
        next(rest)  # the time of completion
    number = next(rest)
    last_entry = next(rest) if is_complete else -1
    if is_complete:
        next(rest)  # the slot of the last record
    begin = Dlsn(number, next(rest), next(rest)) if version > OLDEST else Dlsn(number, 0, 0)
    start = next(rest) if version == NEWEST else _UNASSIGNED
    return DlogSegment(
        path=path,
        number=number,
        ledger=ledger,
        version=version,
        truncation=head >> 8 & 3,
        begin=begin,
        last_txid=last_txid,
        count=head >> 32,
        last_entry=last_entry,
        start=None if start == _UNASSIGNED else start,
    )


def arrange(path: str, found: Iterable[DlogSegment]) -> list[DlogSegment]:
    """Return the segments that a reader reads, in their order, with their sequence numbers.

    Truncated ones at the beginning are left out. A segment that is truncated in part has its
    `begin`, all others begin with their first record.

    Args:
        path: the path of the records.
        found: the records.

    Raises:
        CorruptRecordError: a segment is missing between others or there twice, two have one ledger,
            or one is truncated after an active one.
    """
    ordered = sorted(found, key=lambda segment: segment.number)
    for left, right in itertools.pairwise(ordered):
        if left.number + 1 != right.number:
            raise CorruptRecordError(
                path, f"segment {right.number} follows segment {left.number} ({right.path})"
            )
    kept = list(itertools.dropwhile(lambda segment: segment.is_truncated, _numbered(ordered)))
    owners: dict[int, int] = {}
    for segment in kept:
        if (owner := owners.setdefault(segment.ledger, segment.number)) != segment.number:
            raise CorruptRecordError(
                segment.path, f"it has ledger {segment.ledger}, and so has segment {owner}"
            )
    for segment in kept[1:]:
        if segment.truncation != _ACTIVE:
            raise CorruptRecordError(
                segment.path, f"segment {segment.number} is truncated, and an older one is not"
            )
    return [
        segment
        if segment.truncation == _PARTIAL
        else replace(segment, begin=Dlsn(segment.number, 0, 0))
        for segment in kept
    ]


def _numbered(ordered: Iterable[DlogSegment]) -> Iterable[DlogSegment]:
    """Yield segments with the sequence numbers of open ones, as DistributedLog's readers count."""
    after: int | None = 0
    for segment in ordered:
        if segment.is_complete:
            after = 0 if segment.start is None else segment.start + segment.count
            yield segment
        else:
            yield replace(segment, start=after if segment.version == NEWEST else None)
            after = None
