"""What the clients of a run did and saw: the only evidence the checkers get besides the servers.

An append is `pending` from its call on. `ok` says it is kept, for ever; `unknown` that it may be;
`failed` that it was never sent, so nobody may ever read it. What a process did not live to hear of
stays `pending`, which means unknown. Payloads are unique in a run, so a payload names its append.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from typing import Final, Protocol

from quire.entry import EntryId, LedgerId
from quire.log.records.position import BEGINNING, Appended, Position, Record

WALL_CLOCK_START: Final = 1.7e9
"""Unix seconds at which a run begins."""


ENDS: Final = "L6 all ends when the faults are over"
"""The invariant that any run without an end breaks, whatever keeps it from its end."""


class Violation(AssertionError):  # noqa: N818
    """An invariant does not hold. `name` is the checker's."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name
        self.text = text

    def __reduce__(self) -> tuple[type[Violation], tuple[str, str]]:
        """A result goes from one process of a campaign to another."""
        return type(self), (self.name, self.text)


def require(condition: bool, name: str, text: str) -> None:
    """Raise `Violation` unless the condition holds."""
    if not condition:
        raise Violation(name, text)


class Clock(Protocol):
    """What has a time, in seconds."""

    def time(self) -> float: ...


class Stopwatch:
    """Virtual time in nanoseconds. No time is shown twice, so that times order what happened."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = 0

    def __call__(self) -> int:
        self._last = max(self._last + 1, round(self._clock.time() * 1e9))
        return self._last


class Outcome(StrEnum):
    """How an operation ended, as its caller knows it."""

    PENDING = "pending"
    OK = "ok"
    UNKNOWN = "unknown"
    FAILED = "failed"


@dataclass(slots=True)
class Append:
    """One entry offered to a ledger by its writer, in the order of the list it is in."""

    writer: str
    ledger: LedgerId
    payload: bytes
    outcome: Outcome = Outcome.PENDING
    entry: EntryId | None = None


@dataclass(slots=True)
class Reading:
    """One pass of one reader over a ledger: (entry, payload) as they came."""

    reader: str
    ledger: LedgerId
    first: EntryId
    confirmed_only: bool = True
    entries: list[tuple[EntryId, bytes]] = field(default_factory=list)


@dataclass(slots=True)
class End:
    """Somebody saw a ledger closed at an entry."""

    who: str
    ledger: LedgerId
    last_entry: EntryId


@dataclass
class LedgerHistory:
    """Everything that happened to ledgers."""

    appends: list[Append] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)

    def offer(self, writer: str, ledger: LedgerId, payload: bytes) -> Append:
        append = Append(writer, ledger, payload)
        self.appends.append(append)
        return append

    def read(
        self, reader: str, ledger: LedgerId, first: EntryId, confirmed_only: bool = True
    ) -> Reading:
        reading = Reading(reader, ledger, first, confirmed_only)
        self.readings.append(reading)
        return reading

    def of(self, ledger: LedgerId) -> list[Append]:
        """The appends offered to a ledger, in the order they were offered."""
        return [append for append in self.appends if append.ledger == ledger]


@dataclass(frozen=True, slots=True)
class Seen:
    """One record as a reader of a log got it."""

    position: Position
    offset: int
    epoch: int
    payload: bytes
    txid: int | None = None
    timestamp_ms: int = 0

    @property
    def is_undated(self) -> bool:
        """Whether it bears a time that is years off: a run takes minutes."""
        return abs(self.timestamp_ms / 1000 - WALL_CLOCK_START) > 1e6


def seen_of(record: Record) -> Seen:
    """Return what a reader that was given a record has seen."""
    place = (record.position, record.offset, record.epoch)
    return Seen(*place, record.payload, record.txid, record.timestamp_ms)


@dataclass(slots=True)
class LogAppend:
    """One atomic append of records to a log by a leader."""

    leader: str
    epoch: int
    payloads: tuple[bytes, ...]
    outcome: Outcome = Outcome.PENDING
    positions: tuple[Position, ...] = ()
    offset: int | None = None
    """The offset of the first record, as the leader was told."""
    txid: int | None = None
    expected_offset: int | None = None
    is_resent: bool = False
    """Sent again under its number: then it may be of a later epoch."""
    after: Position | None = None
    """The highest position anybody had confirmed when this was called."""
    begun_in: int = 0
    """The epoch of the manifest when this was called."""
    is_behind_seal: bool = False
    """Somebody had been told that the log is sealed when this was called."""
    called: int = 0
    returned: int | None = None
    """When it was called, and when it was confirmed first."""


@dataclass(slots=True)
class LogReading:
    """One pass of a follower; `gap_before` are indexes at which it was told of a trim."""

    reader: str
    start: Position
    records: list[Seen] = field(default_factory=list)
    gap_before: list[int] = field(default_factory=list)
    now: Callable[[], int] = field(default_factory=lambda: count(1).__next__)
    began: int = 0
    times: list[int] = field(default_factory=list)
    """When it began, and when it was given each record."""

    def take(self, seen: Seen) -> None:
        """Note a record that the reader was given."""
        self.records.append(seen)
        self.times.append(self.now())

    def is_at(self, end: Position | None) -> bool:
        """Whether it has the record at a position, or one behind that; None: there is none."""
        return end is None or (bool(self.records) and self.records[-1].position >= end)

    def behind(self, start: Position) -> Position:
        """Where the follower goes on: behind the last record it got, and not before `start`."""
        return max(start, self.records[-1].position.after) if self.records else start

    def offset_behind(self, start: Position) -> Position | int:
        """The same as an offset. Behind a trim it knows none, and goes on at `start`."""
        if not self.records:
            return 0 if start == BEGINNING else start
        last = self.records[-1]
        return last.offset + 1 if start <= last.position.after else start


@dataclass(frozen=True, slots=True)
class LogEnd:
    """A linearizable end that a client asked for."""

    reader: str
    called: int
    returned: int
    offset: int


@dataclass
class LogHistory:
    """Everything that happened to one log. `now` is a clock that never shows a time twice."""

    now: Callable[[], int] = field(default_factory=lambda: count(1).__next__)
    appends: list[LogAppend] = field(default_factory=list)
    readings: list[LogReading] = field(default_factory=list)
    scans: list[LogReading] = field(default_factory=list)
    """Passes over the whole log after its last leader closed it."""
    ends: list[LogEnd] = field(default_factory=list)
    trimmed_to: Position | None = None
    """Nobody wants what is before it any more."""
    highest: Position | None = None
    sealing: bool = False
    """Somebody has begun to seal the log."""
    sealed: bool = False
    """Somebody was told that it is."""

    def give_up(self, position: Position) -> None:
        """What is before a position may be trimmed from now on."""
        if self.trimmed_to is None or position > self.trimmed_to:
            self.trimmed_to = position

    def offer(self, leader: str, epoch: int, payloads: tuple[bytes, ...]) -> LogAppend:
        append = LogAppend(leader, epoch, payloads, after=self.highest, called=self.now())
        append.is_behind_seal = self.sealed
        self.appends.append(append)
        return append

    def confirm(self, append: LogAppend, told: Sequence[Appended]) -> None:
        """Note where a leader was told that its records are."""
        append.offset = told[0].offset
        self.place(append, tuple(each.position for each in told))

    def place(self, append: LogAppend, positions: tuple[Position, ...]) -> None:
        """Note that records are in the log, and where."""
        append.outcome = Outcome.OK
        append.positions = positions
        if append.returned is None:
            append.returned = self.now()
        last = positions[-1]
        if self.highest is None or last > self.highest:
            self.highest = last

    def read(self, reader: str, start: Position) -> LogReading:
        reading = LogReading(reader, start, now=self.now, began=self.now())
        self.readings.append(reading)
        return reading

    def scan(self, reader: str) -> LogReading:
        """Begin a pass over the whole log when all is over."""
        reading = LogReading(reader, BEGINNING, now=self.now, began=self.now())
        self.scans.append(reading)
        return reading
