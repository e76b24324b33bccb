"""The task of a consumer, and its decisions that need no database. Pure but for `open_steps`.

`quire.sql.consume` and its blocking twin differ in how they call a database. Everything else is
here: where to begin, how to treat a missing record, which errors another attempt may mend.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from quire.aio.backoff import Backoff
from quire.client import SESSION_SECONDS, Client
from quire.election.leadership import Leadership
from quire.errors import (
    ConfigurationError,
    LeadershipLostError,
    PositionMovedError,
    PositionTrimmedError,
    RecordsMissingError,
    RetryError,
    SessionExpiredError,
)
from quire.log.reading.gaps import Gap
from quire.log.records.keyring import Keyring
from quire.log.records.position import BEGINNING, LATEST, Position, Record, Start
from quire.sql.feed import Feed, TransactionLimits
from quire.sql.places import Move, Place

BACKOFF: Final = Backoff(first=0.1, last=10.0, spread=0.0)
"""The pauses after errors that another attempt may mend: a database that restarts takes seconds.
Only an elected consumer pauses, so no two collide.
"""

SUPERSEDED: Final = (LeadershipLostError, SessionExpiredError, PositionMovedError)
"""Errors that say that another consumer of the name is at work: this one stands in line again."""

log_ = logging.getLogger("quire.sql")


@dataclass(frozen=True, slots=True)
class Progress:
    """The work of a consumer up to a commit.

    `records` were in this transaction, and `total` since the call. `next_offset` and `position` are
    where it goes on. `timestamp_ms` is the log's time of the last record (Unix milliseconds): its
    age is the consumer's lag.
    """

    consumer: str
    log: str
    records: int
    total: int
    next_offset: int
    position: Position
    timestamp_ms: int


OnCommit: TypeAlias = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Job:
    """A consumer's name, its log, and how it reads."""

    log: str
    consumer: str
    start: Start = BEGINNING
    follow: bool = True
    limits: TransactionLimits = field(default_factory=TransactionLimits)
    fail_on_data_loss: bool = True
    session_timeout: float = SESSION_SECONDS
    password: bytes = b""
    keyring: Keyring | None = None
    on_commit: OnCommit | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.consumer, str) or not self.consumer:
            raise ConfigurationError(
                f"a consumer needs a name, as its place is stored under it: not {self.consumer!r}"
            )

    @property
    def election(self) -> str:
        """The election of the consumers of this name."""
        return f"sql:{self.log}:{self.consumer}"

    def move(self, expected: Place | None, log_id: str, records: Sequence[Record]) -> Move:
        """Return the step past some records.

        Raises `RecordsMissingError` if the first one is not the expected one.
        """
        first, last = records[0], records[-1]
        if expected is not None and first.offset != expected.offset:
            if self.fail_on_data_loss or first.offset < expected.offset:
                raise self.missing(expected, f"offset {first.offset}")
            log_.warning(
                "consumer %r of log %r leaves %d records out: they are gone (offsets %d to %d)",
                *(self.consumer, self.log, first.offset - expected.offset),
                *(expected.offset, first.offset - 1),
            )
        place = Place(log_id, last.position.after, last.offset + 1)
        return Move(self.consumer, self.log, expected, place)

    def missing(self, expected: Place, first: str) -> RecordsMissingError:
        """Return the error for records that left the log unseen."""
        return RecordsMissingError(self.consumer, self.log, expected.offset, first)

    def progress(self, step: Step, total: int) -> Progress:
        """Return the progress after a commit; `total` records were applied before."""
        count, after = len(step.records), step.move.next
        return Progress(
            *(self.consumer, self.log, count, total + count),
            *(after.offset, after.position, step.records[-1].timestamp_ms),
        )

    def may_go_on(self, error: BaseException, *, is_transient: bool) -> bool:
        """Return whether another attempt may succeed after an error."""
        if isinstance(error, PositionTrimmedError):
            return not self.fail_on_data_loss
        return is_transient or (self.follow and isinstance(error, RetryError))

    def blame(self, error: BaseException, records: Sequence[Record]) -> None:
        """Note on an error of `apply` which records it was given."""
        error.add_note(
            f"consumer {self.consumer!r} of log {self.log!r}: offsets {records[0].offset} to "
            f"{records[-1].offset} were not applied, and nothing of them was written"
        )

    def on_gap(self, gap: Gap) -> None:
        """Log that records are lost; `move` counts them."""
        log_.warning("log %r: records from %s to %s are lost", self.log, gap.first, gap.end)


class Attempts:
    """The attempts of a consumer, one after the other: what they did, and when the next one is."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._pauses = BACKOFF.pauses()
        self.total = 0
        """Records that were applied."""

    def done(self, count: int) -> None:
        """Note that some records were applied."""
        self.total += count
        self._pauses.reset()

    def pause_after(self, error: Exception, *, is_transient: bool) -> float:
        """Return the seconds to the next attempt, which begins at the place in the database.

        Raises the error if no attempt can mend it.
        """
        is_superseded = isinstance(error, SUPERSEDED)
        if not is_superseded and not self._job.may_go_on(error, is_transient=is_transient):
            raise error
        seconds = self._pauses.next()
        log_.log(
            logging.INFO if is_superseded else logging.WARNING,
            "consumer %r of log %r goes on from its last commit in %.1f s: %s",
            *(self._job.consumer, self._job.log, seconds, error),
        )
        return seconds


async def first_place(client: Client, job: Job) -> Place | None:
    """Return the place of a consumer that never moved, None if only reading tells.

    The end of a log moves. So a consumer that begins there stores it before its first record.
    """
    if job.start != LATEST:
        return None
    info = await client.log_info(job.log)
    end = await client.log_end(job.log, password=job.password)
    return Place(info.log_id, end.position, end.offset)


@dataclass(frozen=True, slots=True)
class Step:
    """What one transaction does: its records, and the move past them."""

    move: Move
    records: Sequence[Record]


class Steps:
    """The steps of a consumer from a place on, one after the other."""

    def __init__(
        self, job: Job, feed: Feed, place: Place | None, log_id: Callable[[], str | None]
    ) -> None:
        self._job = job
        self._feed = feed
        self._place = place
        self._log_id = log_id

    async def next(self) -> Step | None:
        """Return the step after the one before, which was committed; None at the end of the log.

        Raises `RecordsMissingError`, `LeadershipLostError`, and the errors of reading.
        """
        try:
            records = await self._feed.next()
        except PositionTrimmedError as error:
            if self._place is None or not self._job.fail_on_data_loss:
                raise
            raise self._job.missing(self._place, f"at {error.first}") from error
        if not records:
            return None
        log_id = self._log_id()
        assert log_id is not None, "a record was read"
        step = Step(self._job.move(self._place, log_id, records), records)
        self._place = step.move.next
        return step


@asynccontextmanager
async def open_steps(
    client: Client, job: Job, place: Place | None, leadership: Leadership
) -> AsyncIterator[Steps]:
    """Read from a place on, or from where a new consumer begins. Raises the errors of opening a
    reader, and `RecordsMissingError`.
    """
    reading = client.read_log(
        job.log,
        await _start(client, job, place),
        follow=job.follow,
        wait_for_log=job.follow and place is None,
        password=job.password,
        log_id=None if place is None else place.log_id,
        on_gap=None if job.fail_on_data_loss else job.on_gap,
        keyring=job.keyring,
    )
    async with reading as reader:
        feed = Feed(reader, leadership, job.limits)
        try:
            yield Steps(job, feed, place, lambda: reader.log_id)
        finally:
            await feed.close()


async def _start(client: Client, job: Job, place: Place | None) -> Start:
    """Return where to read from: the place, or the first record left if its record is gone."""
    start: Start = job.start if place is None else place.position
    if not isinstance(start, Position | int) or start in (BEGINNING, 0):
        return start
    if place is not None and (await client.log_info(job.log)).log_id != place.log_id:
        return start  # the reader raises the right error
    try:
        await client._logs.check_left(job.log, start, password=job.password)
    except PositionTrimmedError as error:
        if not job.fail_on_data_loss:
            return BEGINNING
        if place is not None:
            raise job.missing(place, f"at {error.first}") from error
        raise
    return start
