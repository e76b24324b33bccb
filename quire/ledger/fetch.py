"""Fetching entries from the bookies that hold them.

One fetch returns a range of verified entries that starts at the requested entry. A bookie that
errs, is slow, or sends a bad copy costs a question to the next one, in another rack if there is
one, and is asked last for a while. A copy with a bad digest or the wrong ids is a failed bookie,
nothing more.

Not here: which entries may be read (`reader`), and how far ahead (`read_ahead`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count, takewhile
from typing import Final

from quire.aio.timing import time_limit
from quire.bookie import READ_BYTES_MAX, Meaning, read_denial
from quire.entry import BookieId, Entry, EntryId, LedgerId, Sealer
from quire.errors import (
    CorruptEntryError,
    EntryLostError,
    LedgerRetiredError,
    NoSuchEntryError,
    NotPermittedError,
    QuireError,
    RefusedError,
    UnreadableError,
)
from quire.ledger.options import LedgerOptions
from quire.ledger.pushed_read import read_pushed
from quire.ledger.quorum import Replication, stride_of
from quire.ledger.quorum_call import QuorumCall, within
from quire.ledger.read_plan import Nearness, cover, fallbacks
from quire.ledger.roster import Bookies
from quire.ledger.verify import unseal_run
from quire.metrics.meter import SILENT_METER, ClientMeter, timed

SUSPECT_SECONDS: Final = 5.0
"""How long a bookie that failed or was overtaken is asked last."""


class EntryFetcher:
    """Fetches entries of one ledger and remembers which bookies to avoid."""

    def __init__(
        self,
        bookies: Bookies,
        sealer: Sealer,
        options: LedgerOptions,
        meter: ClientMeter = SILENT_METER,
    ) -> None:
        self.meter = meter
        self.bookies = bookies
        self.sealer = sealer
        self.options = options
        self._suspects: dict[BookieId, float] = {}

    async def fetch(
        self,
        replication: Replication,
        ensemble: Sequence[BookieId],
        first: EntryId,
        last: EntryId,
        *,
        turn: int = 0,
        bytes_max: int = READ_BYTES_MAX,
    ) -> list[Entry]:
        """Return entries first, first + 1 … up to `last` or fewer, at least one.

        All must be of one fragment, with the ensemble `ensemble`. `bytes_max` bounds each bookie's
        answer.

        Raises `NoSuchEntryError` when every bookie that should hold `first` was asked and enough
        of them to outvote any ack say that they do not; `EntryLostError` when each bookie that
        should hold it denies it or has a damaged copy; `UnreadableError` when too many cannot say;
        `LedgerRetiredError` when no copy was found, and a bookie dropped the ledger as deleted;
        `NotPermittedError` when a bookie denies it, and another `RefusedError` when each bookie
        that was asked refuses this program.
        """
        job = _Fetch(self, replication, ensemble, first, last, turn, bytes_max)
        with timed(self.meter.fetched):
            return await job.run()

    async def fetch_pushed(
        self,
        replication: Replication,
        ensemble: Sequence[BookieId],
        first: EntryId,
        last: EntryId,
        *,
        turn: int = 0,
    ) -> list[Entry] | None:
        """Return all entries first … last of a closed ledger; None when they have to be fetched.

        All must be of one fragment, with the ensemble `ensemble`. Only a bookie that holds each of
        them is asked (`pushed_read`). Raises nothing.
        """
        if replication.is_striped:
            return None
        suspects, nearness = self.suspects(ensemble), self.nearness(ensemble)
        bookie = ensemble[cover(replication, turn, suspects, nearness)[0]]
        seconds = self.options.speculative_delay
        try:
            link = self.bookies.bookie(bookie)
        except QuireError:
            return None  # fetching asks the others
        with timed(self.meter.fetched):
            return await read_pushed(link, self.sealer, first, last, seconds)

    def nearness(self, ensemble: Sequence[BookieId]) -> Nearness:
        """Return how far the bookies of an ensemble are."""
        return Nearness(self.options.labels, [self.bookies.labels(each) for each in ensemble])

    def suspects(self, ensemble: Sequence[BookieId]) -> list[int]:
        """Return the positions to ask last."""
        now = asyncio.get_running_loop().time()
        return [
            position
            for position, bookie in enumerate(ensemble)
            if self._suspects.get(bookie, now) > now
        ]

    def suspect(self, bookie: BookieId) -> None:
        """Ask a bookie last for a while."""
        self._suspects[bookie] = asyncio.get_running_loop().time() + SUSPECT_SECONDS

    def trust(self, bookie: BookieId) -> None:
        """Take a suspicion back."""
        self._suspects.pop(bookie, None)


class _Fetch:
    """One fetch: questions out, copies in, until the first entry wanted is there."""

    def __init__(
        self,
        fetcher: EntryFetcher,
        replication: Replication,
        ensemble: Sequence[BookieId],
        first: EntryId,
        last: EntryId,
        turn: int,
        bytes_max: int,
    ) -> None:
        self._fetcher = fetcher
        self._replication = replication
        self._ensemble = ensemble
        self._nearness = fetcher.nearness(ensemble)
        self._first = first
        self._last = last
        self._turn = turn
        self._bytes_max = bytes_max
        self._found: dict[EntryId, Entry] = {}
        self._asked: list[int] = []
        self._hedges: list[int] = []
        """Positions that were asked because the ones before were slow."""
        self._denials = 0
        self._damaged = 0
        """Bookies of the write set of `first` that answered with a copy that is not sound."""
        self._retired: LedgerRetiredError | None = None
        self._failures: list[str] = []
        self._refusals: list[RefusedError] = []

    async def run(self) -> list[Entry]:
        async with QuorumCall[int, bytes]() as asking:
            suspects = self._fetcher.suspects(self._ensemble)
            chosen = cover(self._replication, self._turn, suspects, self._nearness)
            for position in chosen:
                self._ask(asking, position, self._last)
            while not self._is_enough(asking):
                if not asking.outstanding and not self._ask_another(asking):
                    raise self._failure()
                answer = await self._answer(asking)
                if answer is not None:
                    self._take(*answer)
                elif self._first in self._found:
                    break
                elif self._ask_another(asking):
                    self._hedges.append(self._asked[-1])
            if self._hedges:
                slow = all(map(asking.is_asked, self._hedges))
                self._fetcher.meter.hedged(won=not slow)
            self._suspect_the_slow(asking)
        return self._prefix()

    def _is_enough(self, asking: QuorumCall[int, bytes]) -> bool:
        """A stripe's share of the answer is worth waiting for, a second copy is not."""
        if self._first not in self._found:
            return False
        return not self._replication.is_striped or not asking.outstanding

    async def _answer(
        self, asking: QuorumCall[int, bytes]
    ) -> tuple[int, bytes | QuireError] | None:
        """Return the next answer, None when it takes so long that another bookie may be faster."""
        alternatives = self._first in self._found or self._rest()
        patience = self._fetcher.options.speculative_delay if alternatives else None
        try:
            async with time_limit(patience):
                return await asking.next()
        except TimeoutError:
            return None

    def _ask_another(self, asking: QuorumCall[int, bytes]) -> bool:
        """Ask another bookie for the first missing entry; False when all bookies were asked."""
        rest = self._rest()
        if rest:
            behind = (entry for entry in self._found if entry > self._first)
            self._ask(asking, rest[0], min(behind, default=self._last + 1) - 1)
        return bool(rest)

    def _rest(self) -> list[int]:
        suspects = self._fetcher.suspects(self._ensemble)
        return fallbacks(
            *(self._replication, self._first, self._asked, self._turn, suspects),
            nearness=self._nearness,
        )

    def _ask(self, asking: QuorumCall[int, bytes], position: int, last: EntryId) -> None:
        self._asked.append(position)
        asking.ask(position, self._read(position, last))

    async def _read(self, position: int, last: EntryId) -> bytes:
        bookie = self._ensemble[position]
        link = self._fetcher.bookies.bookie(bookie)
        ledger = self._fetcher.sealer.ledger
        stride = stride_of(self._replication, position)
        call = link.read(ledger, self._first, last, bytes_max=self._bytes_max, stride=stride)
        return await within(self._fetcher.options.request_timeout, bookie, call)

    def _take(self, position: int, answer: bytes | QuireError) -> None:
        bookie = self._ensemble[position]
        if isinstance(answer, LedgerRetiredError):
            self._retired = answer
            return
        if isinstance(answer, NotPermittedError):
            raise answer  # the other bookies have the same rights
        if isinstance(answer, QuireError):
            if read_denial(answer, self._first, self._first).meaning is Meaning.ABSENT:
                self._denials += self._replication.is_written_to(self._first, position)
                return
            if isinstance(answer, CorruptEntryError):
                self._note_damage(position, answer.entry)
            if isinstance(answer, RefusedError):
                self._refusals.append(answer)
            self._fetcher.suspect(bookie)
            self._failures.append(str(answer))
            return
        sealer = self._fetcher.sealer
        entries, damaged = unseal_run(sealer, answer, self._first, self._last)
        self._found = {entry.entry: entry for entry in entries} | self._found
        if damaged:
            self._note_damage(position, damaged[0])
            self._fetcher.suspect(bookie)
            self._failures.append(f"bookie {bookie} holds a damaged copy of entry {damaged[0]}")
        else:
            self._fetcher.trust(bookie)

    def _note_damage(self, position: int, entry: EntryId) -> None:
        is_first = entry == self._first
        self._damaged += is_first and self._replication.is_written_to(self._first, position)

    def _suspect_the_slow(self, asking: QuorumCall[int, bytes]) -> None:
        for position in self._asked:
            if asking.is_asked(position):
                self._fetcher.suspect(self._ensemble[position])

    def _prefix(self) -> list[Entry]:
        found = self._found
        return list(map(found.__getitem__, takewhile(found.__contains__, count(self._first))))

    def _failure(self) -> QuireError:
        ledger: LedgerId = self._fetcher.sealer.ledger
        if self._retired is not None:
            return self._retired
        if self._refusals and len(self._refusals) == len(self._asked):
            return self._refusals[0]
        silent = self._replication.write_quorum - self._denials - self._damaged
        if self._denials >= self._replication.coverage:
            return NoSuchEntryError(ledger, self._first, silent=silent)
        reasons = "; ".join(self._failures) or "the bookies asked do not hold it"
        kind = UnreadableError if silent else EntryLostError
        return kind(ledger, self._first, reasons)
