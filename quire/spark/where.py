"""A condition on the columns of a log that says which part of it to read.

    offset >= 1000 and offset < 2000
    timestamp between '2026-11-21T10:00:00Z' and '2026-11-21T11:00:00Z'
    txid = 17 and segment > 3

Terms are joined by `and`, so that the condition is one stretch of each column. Along a log offsets,
segments and txids never decrease, and within a segment times do not. A stretch of them is found
without reading the rest. Every other condition is a filter, which Spark evaluates row by row.

Pure: no clock and no I/O.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from quire.errors import InvalidRequestError

VALUE_MAX: Final = 2**63 - 1

COLUMNS: Final = ("offset", "timestamp", "txid", "segment")

_VALUE: Final = r"(?:timestamp\s*)?'[^']*'|[+-]?\d+"
_TERM: Final = re.compile(
    rf"\s*`?(\w+)`?\s*(?:(<=|>=|==|=|<|>)\s*({_VALUE})|between\s+({_VALUE})\s+and\s+({_VALUE}))\s*",
    re.IGNORECASE,
)
_AND: Final = re.compile(r"and\b", re.IGNORECASE)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class ColumnRange(NamedTuple):
    """Values from `first` on and before `end`."""

    first: int = 0
    end: int = VALUE_MAX

    def narrowed(self, first: int, end: int) -> ColumnRange:
        """Return the values that lie in another stretch as well."""
        return ColumnRange(max(self.first, first), min(self.end, end))

    @property
    def is_empty(self) -> bool:
        """Whether no value lies in it."""
        return self.first >= self.end


@dataclass(frozen=True, slots=True)
class Condition:
    """A stretch of each column; `timestamp` in Unix milliseconds. None: not in the condition."""

    offset: ColumnRange | None = None
    timestamp: ColumnRange | None = None
    txid: ColumnRange | None = None
    segment: ColumnRange | None = None

    def given(self) -> tuple[str, ...]:
        """Return the columns that the condition names."""
        return tuple(name for name in COLUMNS if getattr(self, name) is not None)

    def options(self) -> dict[str, str]:
        """Return the options of a read of this part, txids left out."""
        found: dict[str, str] = {}
        if any(getattr(self, name).is_empty for name in self.given()):
            return {"toOffset": "0"}
        if self.offset is not None:
            found |= _between("Offset", self.offset, "{}")
        if self.timestamp is not None:
            found |= _between("Time", self.timestamp, "{:013}")
        if self.segment is not None:
            found |= _between("Position", self.segment, "{}.0.0")
        return found

    def in_offsets(self, first: int, end: int) -> Condition:
        """Return the condition with offsets in the place of txids."""
        stretch = (self.offset or ColumnRange()).narrowed(first, end)
        return replace(self, offset=stretch, txid=None)


def parse_where(text: str) -> Condition:
    """Return the part of a log that a condition wants; an empty condition wants everything.

    Raises `InvalidRequestError` for a condition of another form, naming the place.
    """
    wanted, at = Condition(), 0
    if not text.strip():
        return wanted
    while True:
        term = _TERM.match(text, at)
        if term is None:
            raise _refusal(text, at)
        wanted = _with_term(wanted, text, term)
        at = term.end()
        if at == len(text):
            return wanted
        joint = _AND.match(text, at)
        if joint is None:
            raise _refusal(text, at)
        at = joint.end()


def _with_term(wanted: Condition, text: str, term: re.Match[str]) -> Condition:
    column = term[1].lower()
    if column not in COLUMNS:
        raise _refusal(text, term.start(1))
    first, end = 0, VALUE_MAX
    terms = [(">=", term[4]), ("<=", term[5])] if term[4] else [(term[2], term[3])]
    for sign, value in terms:
        low, high = _values(column, value)
        if sign in (">", ">=", "=", "=="):
            first = max(first, high if sign == ">" else low)
        if sign in ("<", "<=", "=", "=="):
            end = min(end, low if sign == "<" else high)
    before: ColumnRange = getattr(wanted, column) or ColumnRange()
    stretch = before.narrowed(min(first, VALUE_MAX), max(0, end))
    return Condition(**{name: getattr(wanted, name) for name in COLUMNS} | {column: stretch})


def _values(column: str, text: str) -> tuple[int, int]:
    """Return the first value that is not below a literal, and the first one above it."""
    quoted = text.rstrip().endswith("'")
    if quoted != (column == "timestamp"):
        form = "a time, '2026-11-21T10:00:00Z'" if column == "timestamp" else "a whole number"
        raise InvalidRequestError(f"{column} cannot be compared with {text}: write {form}")
    if not quoted:
        return int(text), int(text) + 1
    try:
        moment = datetime.fromisoformat(text[text.index("'") + 1 : -1])
    except ValueError as error:
        raise InvalidRequestError(f"{text} is not a time: {error}") from None
    if moment.utcoffset() is None:
        raise InvalidRequestError(f"{text} has no time zone: write '2026-11-21T10:00:00Z'")
    micros = (moment - _EPOCH) // _MICROSECOND
    return -(-micros // 1000), micros // 1000 + 1


def _between(name: str, stretch: ColumnRange, form: str) -> dict[str, str]:
    found = {f"from{name}": form.format(stretch.first)} if stretch.first > 0 else {}
    return found | ({f"to{name}": form.format(stretch.end)} if stretch.end < VALUE_MAX else {})


def _refusal(text: str, at: int) -> InvalidRequestError:
    return InvalidRequestError(
        f"where={text!r} is not understood at {text[at : at + 30]!r}: write terms such as "
        f"offset >= 1000, joined by and, over {', '.join(COLUMNS)}; use .where(…) of the data "
        "frame for every other condition"
    )
