"""Following a ledger to its end, together.

All followers of a ledger in one client share one tail: it hears from the bookies, reads confirmed
entries, and keeps them for all. A hundred followers cost bookies as much as one.

  - The tail moves only while a follower waits at its end. So bookies push no more than their credit
    to followers that are all slow, and the entries confirmed meanwhile come as one long read.
  - The tail is where its foremost follower is. A follower that begins further on takes it along.
  - A slow follower, which needs entries older than the recent ones, reads by itself, up to the
    tail. It delays no other.
  - Every follower has its own place, and leaves when it likes. The last that leaves ends the tail
    and all its questions.
  - An error ends the tail. It is raised by the followers that wait for the very entry; others
    begin a new tail.
  - It ends exactly when the ledger is closed and its last entry was delivered.

Not here: the questions (`tail`), the recent entries (`recent`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable
from contextlib import aclosing, asynccontextmanager, closing
from copy import copy
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from quire.aio.backoff import Pauses
from quire.aio.tasks import Tasks
from quire.entry import Entry, EntryId
from quire.errors import (
    EntryLostError,
    HandleClosedError,
    NoSuchEntryError,
    QuireError,
    RetryError,
)
from quire.ledger.known import KnownLedger
from quire.ledger.quorum_call import QuorumCall
from quire.ledger.recent import RecentEntries
from quire.ledger.tail import BACKOFF, Heard, TailWatch
from quire.metrics.meter import SILENT_METER, ClientMeter

ReadRuns: TypeAlias = Callable[[EntryId, EntryId], AsyncGenerator[list[Entry], None]]
"""Yields the entries of a confirmed range, in lists of consecutive ones."""


LOST_SECONDS: Final = 30.0
"""Followers hear after so long that an entry is lost."""


class EntrySource(NamedTuple):
    """What a follower, or the tail of all of them, reads a ledger by."""

    known: KnownLedger
    read_runs: ReadRuns
    meter: ClientMeter = SILENT_METER


@dataclass(eq=False, slots=True)
class _Place:
    """Where a follower is."""

    following: EntryId


class _Patience:
    """How long a lost entry is asked for again: a disk that failed a read may give it later."""

    def __init__(self) -> None:
        self._now = asyncio.get_running_loop().time
        self._entry: EntryId | None = None
        self._until = 0.0

    def bear(self, entry: EntryId, error: EntryLostError) -> None:
        """Raise the error, unless it is new for this entry."""
        if entry != self._entry:
            self._entry, self._until = entry, self._now() + LOST_SECONDS
        elif self._now() >= self._until:
            raise error


class SharedTail:
    """The tail of one ledger. Made and ended by `SharedTails`."""

    def __init__(self, source: EntrySource, first: EntryId) -> None:
        self.known, self._read_runs, self._meter = source
        self.recent = RecentEntries(min(first, self.known.confirmed + 1))
        self.places: dict[_Place, None] = {}
        """The places of its followers."""
        self.has_failed = False
        """Whether an error ended it: it delivers no more."""
        self._waiting: dict[asyncio.Future[Exception | None], _Place] = {}
        self._wanted = asyncio.Event()
        self._loop = asyncio.get_running_loop()  # asking for it is a system call in Python 3.11
        self._watch: TailWatch | None = None
        self._tasks = Tasks(self._fail)
        self._tasks.start(self._run(), f"tail of ledger {self.known.ledger}")

    def tell(self, known: KnownLedger) -> None:
        """Take in the knowledge of a follower."""
        if self.known.learn(known) and self._watch is not None:
            self._watch.tell()

    async def wait(self, place: _Place) -> None:
        """Wait at a place, at or after the end, until the tail moves or is woken.

        Raises the error that ends the tail, if it concerns this place.
        """
        self.recent.skip_to(min(place.following, self.known.confirmed + 1))
        woken: asyncio.Future[Exception | None] = self._loop.create_future()
        self._waiting[woken] = place
        self._wanted.set()
        try:
            error = await woken
        finally:
            self._waiting.pop(woken, None)
        if error is not None:
            # Each follower raises an error of its own: a traceback belongs to one task.
            raise copy(error) if isinstance(error, QuireError) else error

    def wake(self) -> None:
        """Let all followers that wait look around."""
        waiting, self._waiting = self._waiting, {}
        for woken in waiting:
            if not woken.done():
                woken.set_result(None)

    async def stop(self) -> None:
        """End the tail and its questions."""
        await self._tasks.stop()

    async def _run(self) -> None:
        known, recent, pauses = self.known, self.recent, BACKOFF.pauses()
        lost = _Patience()
        asking = QuorumCall[str, Heard]()
        with closing(TailWatch(known, asking, self._meter)) as watch:
            self._watch = watch
            async with asking:
                while True:
                    await self._demand()
                    if fresh := watch.pushed.take(recent.end, known.confirmed):
                        self._deliver(fresh, pauses)
                    elif recent.end <= known.confirmed:
                        try:
                            await self._read(pauses)
                        except EntryLostError as error:
                            lost.bear(recent.end, error)
                            await asyncio.sleep(pauses.next())
                        except RetryError:
                            await asyncio.sleep(pauses.next())
                    elif known.is_closed:
                        break
                    else:
                        await watch.next()
        self.wake()

    async def _demand(self) -> None:
        """Wait until a follower waits at the end, and drop the entries that all have taken.

        So a tail that is idle keeps nothing for followers that are up to date.
        """
        while not self._waiting:
            self._wanted.clear()
            await self._wanted.wait()
        self.recent.forget_before(min(place.following for place in self.places))

    async def _read(self, pauses: Pauses) -> None:
        """Read confirmed entries, as far as followers want them, or until a follower skips some."""
        async with aclosing(self._read_runs(self.recent.end, self.known.confirmed)) as runs:
            async for run in runs:
                if run[0].entry != self.recent.end:
                    return
                self._deliver(run, pauses)
                await self._demand()

    def _deliver(self, run: list[Entry], pauses: Pauses) -> None:
        pauses.reset()
        self.recent.push(run)
        self.wake()

    def _fail(self, error: Exception) -> None:
        """End with an error. If an entry cannot be read, those further on are not concerned."""
        self.has_failed = True
        end, reads = self.recent.end, self.recent.end <= self.known.confirmed
        waiting, self._waiting = self._waiting, {}
        for woken, place in waiting.items():
            if not woken.done():
                woken.set_result(None if reads and place.following > end else error)


class SharedTails:
    """The tails of one client's followers, one for each ledger that is followed."""

    def __init__(self) -> None:
        self._tails: dict[Hashable, SharedTail] = {}

    @asynccontextmanager
    async def joined(
        self, known: KnownLedger, place: _Place, begin: Callable[[], EntrySource]
    ) -> AsyncIterator[SharedTail]:
        """Take part in the tail of a ledger. The first that comes begins it, the last ends it."""
        key, tail = _key(known), self._tails.get(_key(known))
        if tail is None or tail.has_failed:
            source = begin()
            source.known.learn(known)
            tail = self._tails[key] = SharedTail(source, place.following)
        tail.places[place] = None
        tail.tell(known)
        try:
            yield tail
        finally:
            del tail.places[place]
            if not tail.places:
                if self._tails.get(key) is tail:
                    del self._tails[key]
                await tail.stop()

    def wake(self, known: KnownLedger) -> None:
        """Let the followers of a ledger that wait look around: a handle was closed."""
        tail = self._tails.get(_key(known))
        if tail is not None:
            tail.wake()


def _key(known: KnownLedger) -> Hashable:
    """Return the key that readers of the same entries share: the ledger, and the proof of its
    password.
    """
    return known.ledger, known.sealer.kind, known.sealer.access_key, known.metadata.token


async def follow(
    tails: SharedTails,
    source: EntrySource,
    begin: Callable[[], EntrySource],
    closed: asyncio.Event,
    first: EntryId,
) -> AsyncGenerator[list[Entry], None]:
    """Yield confirmed entries from `first` on as they appear, until the ledger ends.

    `begin` makes the source of a new tail. Raises `HandleClosedError` once `closed` is set and
    `tails` were woken. See `LedgerReader.follow`.
    """
    known, place, pauses = source.known, _Place(first), BACKOFF.pauses()
    lost = _Patience()
    while True:
        async with tails.joined(known, place, begin) as tail:
            while not tail.has_failed:
                known.learn(tail.known)
                if closed.is_set():
                    raise HandleClosedError(f"reader of ledger {known.ledger}")
                if run := tail.recent.from_on(place.following):
                    place.following = run[-1].entry + 1
                    yield run
                elif place.following < tail.recent.end:
                    behind = source.read_runs(place.following, tail.recent.end - 1)
                    try:
                        async with aclosing(behind) as runs:
                            async for run in runs:
                                place.following = run[-1].entry + 1
                                pauses.reset()
                                yield run
                    except EntryLostError as error:
                        lost.bear(place.following, error)
                        await asyncio.sleep(pauses.next())
                    except RetryError:
                        await asyncio.sleep(pauses.next())
                elif known.is_closed and place.following > known.confirmed:
                    if place.following > known.confirmed + 1:
                        raise NoSuchEntryError(known.ledger, place.following)
                    return
                else:
                    await tail.wait(place)
