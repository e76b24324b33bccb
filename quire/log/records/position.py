"""Where a record of a log is, where a reader may start, and the record that it gets.

A record has two addresses that never change: its `Position` (segment, entry, slot), which leads to
it without a search, and its `offset`, a number without gaps that counts the records of the log.
Positions are compared as tuples. They are not dense: after the last slot of an entry, and after the
last entry of a segment, there are positions without a record. A reader that starts at such a
position continues with the next record. A position far after the last entry of a segment was never
handed out. Readers reject it: it belongs to another log, or was made up.

Named tuples and not dataclasses: one of each is made per record, and making one costs a third.

Pure: no clock and no I/O.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, TypeAlias

from quire.errors import CorruptRecordError, InvalidRequestError


class Position(NamedTuple):
    """A place in a log: segments are numbered from 1, entries and slots from 0."""

    segment: int
    entry: int
    slot: int

    def __str__(self) -> str:
        return f"{self.segment}.{self.entry}.{self.slot}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """Return a position from its text.

        Args:
            text: `segment.entry.slot`, as `str` writes it, or `beginning` or `latest`.

        Returns:
            The position, `BEGINNING` or `LATEST`.

        Raises:
            InvalidRequestError: the text has another form.
        """
        if text in _NAMED:
            return _NAMED[text]
        parts = text.split(".")
        if len(parts) != 3 or not all(is_number(part) for part in parts):
            raise InvalidRequestError(
                f"{text[:TEXT_SHOWN]!r} is not a position: write segment.entry.slot, 'beginning' "
                "or 'latest'"
            )
        return cls(int(parts[0]), int(parts[1]), int(parts[2]))

    @property
    def after(self) -> Position:
        """The first position after the record at this one."""
        return Position(self.segment, self.entry, self.slot + 1)


BEGINNING: Final = Position(0, 0, 0)
"""Before every record; a reader that starts here starts at the first record not trimmed."""

LATEST: Final = Position(2**63 - 1, 0, 0)
"""After every record: a reader that starts here gets the records confirmed after it was made."""

DIGITS_MAX: Final = 19
"""Of a number below 2^63. Python refuses to read numbers of some thousand digits."""

TEXT_SHOWN: Final = 80
"""Characters of a wrong text that an error has."""


def is_number(text: str) -> bool:
    """Return whether a text is a whole number of at most `DIGITS_MAX` digits."""
    return len(text) <= DIGITS_MAX and text.isascii() and text.isdecimal()


_NAMED: Final = {"beginning": BEGINNING, "latest": LATEST}

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def to_ms(time: datetime) -> int:
    """Return the first Unix millisecond that is not before a time.

    Raises `InvalidRequestError` for a time without a zone.
    """
    if time.utcoffset() is None:
        raise InvalidRequestError(f"{time} has no time zone: write it with one")
    return -((_EPOCH - time) // _MILLISECOND)


def stored_position(path: str, text: str) -> Position:
    """Return the position in a metadata record. Raises `CorruptRecordError`, naming the path."""
    try:
        return Position.parse(text)
    except InvalidRequestError as error:
        raise CorruptRecordError(path, str(error)) from error


def check_position(position: Position) -> None:
    """Raise `InvalidRequestError` for a value that is not a position, as with a slot below 0: a
    record that held it could not be read again.
    """
    if not isinstance(position, Position):
        raise InvalidRequestError(
            f"not a position: {position!r} (expected a Position, which Position.parse reads)"
        )
    Position.parse(str(position))


def check_offset(offset: object) -> None:
    """Raises `InvalidRequestError` for an invalid offset, also for text that means a position:
    `Position.parse` reads such text.
    """
    if type(offset) is not int or not 0 <= offset < 2**63:
        raise InvalidRequestError(
            f"not a place in a log: {offset!r} (expected a Position, which Position.parse reads, "
            "or an offset, a number in 0..2**63-1)"
        )


class Appended(NamedTuple):
    """Where an appended record is: its position, and its offset. Both never change.

    A named tuple, so that `position, offset = await log.append(record)` works.
    """

    position: Position
    offset: int


class RepeatedAppend(Appended):
    """Where a record is that was appended before, under the same number of its producer."""

    __slots__ = ()


class AtCursor(NamedTuple):
    """Start of a reader: where the log's cursor of this name is."""

    name: str


class AtTxid(NamedTuple):
    """Start of a reader: the first remaining record with this txid or a higher one."""

    txid: int


Start: TypeAlias = Position | int | datetime | AtCursor | AtTxid
"""Where a reader starts: a position, `BEGINNING`, `LATEST`, an offset, the first record that is not
older than an aware datetime, a cursor, or a txid."""


class Record(NamedTuple):
    """A record as a reader returns it.

    `epoch` is the number of its leader. `timestamp_ms` (Unix milliseconds) never decreases along a
    log. `txid` never decreases either, and stays None until the log's first
    (txids.py). `key`, `headers` and `event_time_ms` are the application's (attributes.py): pairs of
    names and values, and Unix milliseconds.
    """

    position: Position
    offset: int
    epoch: int
    timestamp_ms: int
    payload: bytes
    txid: int | None = None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    event_time_ms: int | None = None
