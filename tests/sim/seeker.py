"""Somebody who begins to read a log at a time, a transaction or its end, again and again, while it
goes on.

C9  a reader begins at the first record that it asked for: at none before it, and none between
    the one it asked for and the one it was given first was left out, but what was trimmed. At the
    end that is any record whose append began after the reader was made. A record of a leader
    whose clock was years off bears no time that counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from quire.aio.timing import time_limit
from quire.log.directory import LogDirectory
from quire.log.records.keyring import Keyring
from quire.log.records.position import BEGINNING, LATEST, AtTxid, Position
from tests.sim.clients import ClientMachine
from tests.sim.followers import trying
from tests.sim.history import LogHistory, LogReading, Seen, require, seen_of
from tests.sim.world import SimWorld

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
RULE = "C9 a reader begins at the first record it asked for"


@dataclass(slots=True)
class Search:
    """One start of a reader, and what it was given."""

    asked: AtTxid | datetime | Position
    reading: LogReading
    appends_before: int = 0
    """How many appends had been called when its reader was made."""
    is_clock_good: bool = True
    """Whether the clock of its process was not behind, and did not jump meanwhile."""
    given_up: Position | None = None
    """What was trimmed, at most, when its first record came."""

    def wants(self, seen: Seen, appended: Mapping[Position, int]) -> bool:
        """Whether a record is one that was asked for, or would stand behind it; for each position,
        the number of the append that it is of.
        """
        if isinstance(self.asked, Position):
            return appended.get(seen.position, -1) >= self.appends_before
        if isinstance(self.asked, AtTxid):
            return seen.txid is not None and seen.txid >= self.asked.txid
        return EPOCH + timedelta(milliseconds=seen.timestamp_ms) >= self.asked

    def check(self, known: Iterable[Seen], appended: Mapping[Position, int]) -> None:
        """Compare the first record with all that anybody knows of the log."""
        if not self.reading.records:
            return
        first = self.reading.records[0]
        is_time = isinstance(self.asked, datetime)
        if is_time and not self.is_clock_good:
            return
        # at the end there may be records that were acknowledged before, and are announced late
        is_asked_for = self.asked == LATEST or self.wants(first, appended)
        is_undated = is_time and first.is_undated
        require(is_asked_for or is_undated, RULE, f"{self.asked} was asked for, {first} was given")
        for seen in known:
            is_left = self.given_up is None or seen.position >= self.given_up
            is_left = is_left and not (is_time and seen.is_undated)
            require(
                seen.position >= first.position or not is_left or not self.wants(seen, appended),
                RULE,
                f"{self.asked} was asked for, and {first} was given; {seen} stands before it",
            )


class Seeker:
    """See the module."""

    def __init__(self, world: SimWorld, log: str, keyring: Keyring, *, may_seek: bool) -> None:
        self._world = world
        self._log = log
        self._keyring = keyring
        self._rng = world.rng("seeker")
        self.wanted = self._rng.random() < 0.3 and may_seek
        self._searches: list[Search] = []

    async def run(self, client: ClientMachine, directory: LogDirectory) -> None:
        """Search until the process ends."""
        while True:
            await asyncio.sleep(self._rng.expovariate(100.0))
            reading = self._world.log.read(f"seeker{len(self._searches)}", BEGINNING)
            search = Search(self._draw(), reading)
            self._searches.append(search)
            with trying(self._world, client):
                await self._read(client, directory, search)

    def _draw(self) -> AtTxid | datetime | Position:
        """Ask for something that is there, or almost, or that comes soon."""
        appends, rng = self._world.log.appends, self._rng
        ids = [each.txid for each in appends[-4:] if each.txid is not None]
        if ids and rng.random() < 0.5:
            return AtTxid(rng.choice(ids) + rng.choice([0, 0, 1]))
        if rng.random() < 0.4:
            return LATEST
        age = rng.choice([0.0, 0.01 * rng.random(), rng.random()])
        return EPOCH + timedelta(seconds=self._world.clock() - age)

    async def _read(self, client: ClientMachine, directory: LogDirectory, search: Search) -> None:
        """Read some records; there may be none yet."""
        reader = await directory.read(self._log, search.asked, follow=True, keyring=self._keyring)
        records = search.reading.records
        search.appends_before = len(self._world.log.appends)
        jumps = client.jumps
        try:
            if self._rng.random() < 0.5:
                await asyncio.sleep(self._rng.choice([0.01, 0.1]))  # and looks at something else
            with suppress(TimeoutError):
                async with time_limit(self._rng.choice([0.02, 0.02, 0.2])):
                    async for record in reader:
                        if not records:
                            search.given_up = self._world.log.trimmed_to
                            search.is_clock_good = client.off >= 0 and client.jumps == jumps
                            self._world.note_fault("search")
                        search.reading.take(seen_of(record))
                        if self._rng.random() < 0.5:
                            break
        finally:
            await reader.close()

    def check(self, final: list[Seen], history: LogHistory) -> None:
        """Compare every start with what was and is in the log."""
        known = {seen.position: seen for each in history.readings for seen in each.records}
        known.update({seen.position: seen for seen in final})
        appended = {
            position: number
            for number, append in enumerate(history.appends)
            if not append.is_resent  # or it may have been there before
            for position in append.positions
        }
        for search in self._searches:
            search.check(known.values(), appended)
