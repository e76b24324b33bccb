"""Writing recovered entries back, so that they are on enough bookies when the ledger is closed.

Entries go in batches, in order, under their old ids and payloads. Headers are sealed again with
the LAC that recovery started at: were it to grow, a bookie could announce as confirmed an entry
that a recovery which loses the race to close had merely reached (L7). A batch is done when each of
its entries is on Qa bookies, in enough domains (`ack_rule`).

A bookie that fails or is slow is replaced when there is a spare, by a fragment that starts at
the batch. Without a spare it stays down, and is asked again for a batch that the others cannot make
safe. These fragments live in `mended` only and reach metadata with the closing change, or
never: another recovery must not look for entries on bookies that may never get them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from quire.aio.timing import time_limit
from quire.entry import BookieId, Entry, EntryId, Sealer
from quire.errors import (
    LedgerRetiredError,
    NotEnoughBookiesError,
    QuireError,
    RefusedError,
)
from quire.ledger.ack_rule import AckRule
from quire.ledger.domains import Candidate
from quire.ledger.metadata import Fragment, LedgerMetadata
from quire.ledger.options import LedgerOptions
from quire.ledger.placement import replace
from quire.ledger.quorum_call import QuorumCall, retry_transient, within
from quire.ledger.roster import Bookies, seated
from quire.run import pack_run

STOPPING: Final = (LedgerRetiredError, RefusedError)
"""Answers that end a recovery: another bookie would give the same."""

LAG_SECONDS: Final = 0.5
"""How long a batch that is safe waits for bookies that have not acked it before they are
replaced.
"""


class WriteBack:
    """Writes the recovered entries of one ledger. Batches follow each other without a gap."""

    def __init__(
        self,
        metadata: LedgerMetadata,
        bookies: Bookies,
        sealer: Sealer,
        options: LedgerOptions,
        rng: random.Random,
        start: EntryId,
    ) -> None:
        self.mended = metadata
        """The metadata recovery began with, and the ensembles that were changed since."""
        self._replication = metadata.replication
        self._bookies = bookies
        self._sealer = sealer
        self._options = options
        self._rng = rng
        self._start = start
        self._down: set[int] = set()
        self._failed: set[BookieId] = set()
        self._obstacle: NotEnoughBookiesError | None = None
        """Why the last replacement was impossible."""

    async def write(self, batch: Sequence[Entry]) -> None:
        """Return when enough bookies of the ensemble in `mended` have each entry.

        Raises `LedgerRetiredError` when a bookie dropped the ledger as deleted, and
        `NotEnoughBookiesError` when too few of its bookies take entries and none is left to
        replace them; `NotEnoughDomainsError` when none is left in a missing domain.
        Cancelling leaves some copies, which is harmless.
        """
        runs = self._runs(batch)
        acked: set[int] = set()
        self._replace(batch[0].entry)
        unasked = set(self._down)
        while True:
            await self._send(batch, runs, acked)
            if self._replace(batch[0].entry):
                continue
            if self._is_safe(batch, acked):
                return
            if not unasked:
                raise self._obstacle or NotEnoughBookiesError(len(self._down), len(self._spares()))
            # They failed an earlier batch: the trouble may have passed.
            self._down -= unasked
            unasked.clear()

    def _runs(self, batch: Sequence[Entry]) -> list[bytes]:
        """Return what each position is to store."""
        seal, written = self._sealer.seal, self._replication.is_written_to
        frames = [
            (entry.entry, seal(entry.entry, self._start, entry.length, entry.payload))
            for entry in batch
        ]
        whole = b"" if self._replication.is_striped else pack_run(frame for _, frame in frames)
        return [
            whole or pack_run(frame for entry, frame in frames if written(entry, position))
            for position in range(self._replication.ensemble)
        ]

    async def _send(self, batch: Sequence[Entry], runs: list[bytes], acked: set[int]) -> None:
        """Send the batch to bookies that lack it, until all have it or one must be replaced."""
        ensemble = self.mended.last_fragment.bookies
        async with QuorumCall[int, None]() as asking:
            for position, run in enumerate(runs):
                if not run:
                    acked.add(position)
                elif position not in acked and position not in self._down:
                    asking.ask(position, self._add(ensemble[position], run))
            while asking.outstanding:
                try:
                    async with time_limit(LAG_SECONDS if self._is_safe(batch, acked) else None):
                        position, error = await asking.next()
                except TimeoutError:
                    self._down.update(p for p in range(len(runs)) if asking.is_asked(p))
                    return
                if isinstance(error, STOPPING):
                    raise error
                if isinstance(error, QuireError):
                    self._down.add(position)
                    if self._drawn() is not None:
                        return
                else:
                    acked.add(position)

    async def _add(self, bookie: BookieId, run: bytes) -> None:
        async def attempt() -> None:
            link = self._bookies.bookie(bookie)
            await link.add(self._sealer.ledger, self._sealer.access_key, run, recovery=True)

        await within(self._options.request_timeout, bookie, retry_transient(attempt))

    def _replace(self, first: EntryId) -> bool:
        """Give positions that are down to spares; returns whether any was given away.

        A position that is down did not ack the batch that begins at `first`: no ack becomes void.
        """
        ensemble = self.mended.last_fragment.bookies
        self._failed.update(ensemble[position] for position in sorted(self._down))
        drawn = self._drawn()
        if drawn is None:
            return False
        changed = Fragment.placed(first, drawn, self.mended.placement)
        self.mended = self.mended.with_fragment(changed)
        self._down = {
            position for position in self._down if changed.bookies[position] == ensemble[position]
        }
        return True

    def _drawn(self) -> tuple[Candidate, ...] | None:
        """Return the ensemble with positions that are down given away, None if none can be."""
        if not self._down:
            return None
        try:
            return replace(
                self._rng,
                seated(self.mended.last_fragment, self._bookies),
                self._down,
                self._spares(),
                self._replication,
                self.mended.placement,
                self._bookies.places(),
            )
        except NotEnoughBookiesError as error:
            self._obstacle = error
            return None

    def _spares(self) -> list[Candidate]:
        ensemble = self.mended.last_fragment.bookies
        taken = self._failed.union(ensemble)
        return [each for each in self._bookies.candidates() if each.bookie not in taken]

    def _is_safe(self, batch: Sequence[Entry], acked: set[int]) -> bool:
        """Whether enough bookies have each entry. Entries E apart share their write set."""
        mended = self.mended
        rule = AckRule.of(self._replication, mended.placement, mended.last_fragment)
        return all(
            rule.suffices(self._replication.write_set(entry.entry), acked)
            for entry in batch[: self._replication.ensemble]
        )
