"""Whether the end of an open ledger may have moved, without a question each time.

A program that looks at the ends of many ledgers again and again begins a watch for each. Bookies
and the metadata store tell it when something happens. Until then the end is where it was.

  - News are not verified: they only say that it is time to ask. A lie costs a question.
  - Bookies that cover every write set are subscribed at, so a LAC that is announced reaches one.
  - A watch tells once. A bookie sends one message for it, however much is appended meanwhile.
  - A subscription that ends or cannot begin, and a change of the record, count as news: an
    ensemble that changed has other bookies.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from quire.aio.tasks import Tasks
from quire.entry import ENTRY_MAX, BookieId
from quire.errors import QuireError
from quire.ledger.known import KnownLedger
from quire.ledger.read_plan import covering
from quire.ledger.subscription import Subscribable

QUIET_SECONDS: Final = 30.0
"""A bookie that is silent for so long, and for the time of a request, counts as news."""


class EndWatch:
    """A watch of the end that a ledger is known to have. Needs a running event loop.

    It is begun before the end is told to others. So each LAC that is announced above the known
    LAC, before or after, is told. `close` ends it.
    """

    def __init__(self, known: KnownLedger) -> None:
        """Begin, without waiting."""
        self._known = known
        self._above = known.confirmed
        self._stirred = asyncio.Event()
        self._tasks = Tasks()
        for bookie in self._covering():
            self._tasks.start(self._listen(bookie), f"end of ledger {known.ledger} at {bookie}")
        self._tasks.start(self._wait_record(), f"record of ledger {known.ledger}")

    @property
    def is_stirred(self) -> bool:
        """Whether the end may have moved."""
        return self._stirred.is_set()

    async def wait(self) -> None:
        """Return when the end may have moved."""
        await self._stirred.wait()

    async def close(self) -> None:
        """End the watch. Harmless again."""
        await self._tasks.stop()

    def _covering(self) -> list[BookieId]:
        metadata = self._known.metadata
        ensemble = metadata.last_fragment.bookies
        positions = covering(metadata.replication, list(range(len(ensemble))))
        return [ensemble[position] for position in positions]

    async def _listen(self, bookie: BookieId) -> None:
        with suppress(QuireError):
            link = self._known.bookies.bookie(bookie)
            if isinstance(link, Subscribable):
                ledger, above = self._known.ledger, self._above
                found = await link.subscribe(ledger, above, ENTRY_MAX, QUIET_SECONDS)
                if found is not None:
                    try:
                        while True:
                            news = await found.next()
                            if news.fenced or news.hint > above:
                                break
                            found.give_back(ENTRY_MAX)
                    finally:
                        found.close()
        self._stirred.set()

    async def _wait_record(self) -> None:
        with suppress(QuireError):
            await self._known.records.wait(self._known.ledger, self._known.version)
        self._stirred.set()
