"""A cluster at one moment, as values to show.

A field is None where nothing tells it. A log, a cursor or a bookie that could not be asked says why
in `trouble`, so one part that is out of reach hides no other part.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from quire.entry import BookieId
from quire.healing.state import BookieFacts, State, silent_seconds
from quire.healing.verdict import ClusterFacts, Verdict, health
from quire.log.manifest.info import SegmentInfo
from quire.metastore.heartbeat import Place
from quire.metastore.standing import Standing
from quire.view.users import UsersView, users_of


@dataclass(frozen=True, slots=True)
class BookieView:
    """A bookie.

    Attributes:
        bookie: its id.
        state: its state (healing/state.py).
        address: its address, or the last known one.
        host: the name of its machine.
        labels: where it is, as `region=…,zone=…`.
        version: the version of its program.
        writable: whether it takes new entries.
        answers: whether it answered; None when it is not registered.
        silent_seconds: for how long it has been silent; None when it is registered.
        ledgers: the ledgers that it has entries of.
        in_limbo: the ledgers that it may have lost entries of.
        disks: its directories, by its last heartbeat.
        counters: what it did since its start, by name; empty when it did not answer.
        standing: the wish of its operator.
        trouble: why it did not answer; empty otherwise.
    """

    bookie: BookieId
    state: State
    address: str
    host: str
    labels: str
    version: str
    writable: bool | None
    answers: bool | None
    silent_seconds: float | None
    ledgers: int | None
    in_limbo: int
    disks: Sequence[Place]
    counters: Mapping[str, int]
    standing: Standing
    trouble: str = ""

    @property
    def free_share(self) -> float | None:
        """The free share of its fullest directory, from 0 to 1."""
        shares = [each.free_bytes / each.total_bytes for each in self.disks if each.total_bytes]
        return min(shares, default=None)


@dataclass(frozen=True, slots=True)
class LeaderView:
    """The process that took a log over last. It may have ended since: nothing tells that.

    `candidate` is the leader of the election with the log's name, where there is one. Host, process
    id and the time of the takeover (Unix ms) are in the log itself, unless an older program took it
    over, or the cluster is at an older feature level.
    """

    epoch: int
    candidate: str | None = None
    host: str = ""
    pid: int | None = None
    since_ms: int | None = None

    @property
    def name(self) -> str:
        """The leader in one word: its candidate, or host and process id; empty if unknown."""
        return self.candidate or (f"{self.host}:{self.pid}" if self.host else "")


@dataclass(frozen=True, slots=True)
class CursorView:
    """A cursor of a log: its next position, when it moved last, and the records before the end."""

    name: str
    position: str
    updated_ms: int
    lag: int | None


@dataclass(frozen=True, slots=True)
class LogView:
    """A log.

    Attributes:
        name: its name.
        log_id: its identity; empty when it could not be read.
        created_ms: when it was made, in Unix milliseconds.
        epoch: the number of its last takeover.
        is_sealed: whether it takes no more records.
        is_being_deleted: whether it is gone for readers.
        segments: how many segments it has.
        youngest: its last segments, the oldest first; all of a log without pages.
        bytes: payload bytes of its sealed segments.
        first_offset: the offset of its first record, but for a trim inside a segment.
        end_offset: the offset of its next record; None when no bookie told it.
        leader: the process that took it over last; None when it never had a leader.
        cursors: its cursors, sorted by name.
        options: the options that hold for each leader.
        trouble: why it could not be asked; empty otherwise.
    """

    name: str
    log_id: str = ""
    created_ms: int = 0
    epoch: int = 0
    is_sealed: bool = False
    is_being_deleted: bool = False
    segments: int = 0
    youngest: Sequence[SegmentInfo] = ()
    bytes: int = 0
    first_offset: int = 0
    end_offset: int | None = None
    leader: LeaderView | None = None
    cursors: Sequence[CursorView] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    trouble: str = ""

    @property
    def records(self) -> int | None:
        """How many records it has."""
        return None if self.end_offset is None else self.end_offset - self.first_offset

    @property
    def slowest(self) -> CursorView | None:
        """The cursor with the largest known lag."""
        known = [each for each in self.cursors if each.lag is not None]
        return max(known, key=lambda each: (each.lag or 0, each.name), default=None)


@dataclass(frozen=True, slots=True)
class ClientView:
    """A registered client: its host and process, and the version of its program."""

    name: str
    where: str
    version: str


@dataclass(frozen=True)
class ClusterView:
    """A cluster at one moment.

    Attributes:
        store: the URI of its metadata store.
        facts: the facts of its bookies and of healing.
        logs: the logs that were asked for, sorted by name.
        log_names: the names of all logs, sorted.
        clients: the registered clients.
    """

    store: str
    facts: ClusterFacts
    logs: Sequence[LogView] = ()
    log_names: Sequence[str] = ()
    clients: Sequence[ClientView] = ()

    @property
    def at_ms(self) -> int:
        """When it was looked at, in Unix milliseconds of the process that looked."""
        return self.facts.clock_ms

    @cached_property
    def verdict(self) -> Verdict:
        """Its health, with reasons."""
        return health(self.facts)

    @cached_property
    def users(self) -> UsersView:
        """The processes that use ledgers, as the bookies that answered know them."""
        return users_of(each.info for each in self.facts.bookies if each.info is not None)

    @cached_property
    def bookies(self) -> Sequence[BookieView]:
        """Its bookies, sorted by id."""
        return tuple(view_bookie(self.facts, each) for each in self.facts.bookies)


def view_bookie(facts: ClusterFacts, each: BookieFacts) -> BookieView:
    """Return a bookie as it is shown."""
    info, beat, registered = each.info, each.heartbeat, each.registered
    writable = None if registered is None else registered.writable
    if info is not None:
        writable = bool(writable) and info.writable
    ledgers = info.ledgers if info is not None else None if beat is None else beat.ledgers
    return BookieView(
        each.bookie,
        facts.state(each),
        each.address,
        each.labels.host or "",
        str(each.labels),
        each.version,
        writable,
        None if registered is None else info is not None,
        silent_seconds(each, facts.now_ms),
        ledgers,
        each.in_limbo,
        each.disks,
        {} if info is None else dict(info.counters),
        each.standing,
        each.silence,
    )
