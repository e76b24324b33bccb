"""Which connections use which ledgers of a bookie, as far as its answered calls tell.

A bookie has no handles: a client opens a ledger without a word to it. So a connection counts as a
writer for some minutes after an append that was answered, as a reader for one minute after a read,
and as a follower while its wait for entries goes on. A writer that appends nothing for longer is
not told, and a client that only opened a ledger is not either.

A note costs a store into a dictionary for a run, a read or a wait, and an entry nothing. A run of
the ledger of the run before costs a comparison. The number of notes is bounded: the oldest go.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from quire.bookie import LedgerUse, LedgerUses, UseKind
from quire.entry import LedgerId

KEPT_SECONDS: Final = {UseKind.WRITES: 300.0, UseKind.RECOVERS: 300.0, UseKind.READS: 60.0}
"""So long after its last call a connection counts as a user."""

NOTES_MAX: Final = 8192
"""At some 300 bytes each: two megabytes."""

TOLD_MAX: Final = 256
"""Uses in one description of a bookie, the latest first: some 20 KB."""

AGAIN_SECONDS: Final = 1.0
"""A stream that goes on with a ledger notes it again after so long."""


class Uses:
    """The notes of one bookie. One owner, on one loop."""

    def __init__(self) -> None:
        self._last: OrderedDict[tuple[LedgerId, UseKind, str], float] = OrderedDict()
        """When each use was seen last, in that order."""
        self._waits: Counter[tuple[LedgerId, str]] = Counter()

    def note(self, ledger: LedgerId, kind: UseKind, peer: str, now: float) -> None:
        """A call of a connection was answered."""
        key = (ledger, kind, peer)
        self._last[key] = now
        self._last.move_to_end(key)
        if len(self._last) > NOTES_MAX:
            self._last.popitem(last=False)

    @contextmanager
    def waiting(self, ledger: LedgerId, peer: str) -> Iterator[None]:
        """A connection waits in the block for entries of a ledger."""
        self._waits[ledger, peer] += 1
        try:
            yield
        finally:
            self._waits[ledger, peer] -= 1
            if not self._waits[ledger, peer]:
                del self._waits[ledger, peer]

    def left(self, peer: str) -> None:
        """A connection for runs has ended: it writes no more."""
        for key in [each for each in self._last if each[2] == peer]:
            del self._last[key]

    def told(self, now: float) -> LedgerUses:
        """Return the uses of now, the latest first, and how many more there are."""
        while self._last:
            key, when = next(iter(self._last.items()))
            if now - when <= max(KEPT_SECONDS.values()):
                break
            del self._last[key]
        found = [
            LedgerUse(ledger, UseKind.FOLLOWS, peer, 0.0) for ledger, peer in sorted(self._waits)
        ]
        found += [
            LedgerUse(ledger, kind, peer, now - when)
            for (ledger, kind, peer), when in reversed(self._last.items())
            if now - when <= KEPT_SECONDS[kind] and (ledger, peer) not in self._waits
        ]
        return LedgerUses(tuple(found[:TOLD_MAX]), max(0, len(found) - TOLD_MAX))


class StreamUses:
    """The notes of one stream of runs."""

    __slots__ = ("_at", "_ledger", "_peer", "_uses")

    def __init__(self, uses: Uses, peer: str) -> None:
        self._uses = uses
        self._peer = peer
        self._ledger: LedgerId | None = None
        self._at = 0.0

    def note(self, ledger: LedgerId, kind: UseKind, now: float) -> None:
        """A run of the stream was answered."""
        if ledger != self._ledger or now - self._at >= AGAIN_SECONDS:
            self._ledger, self._at = ledger, now
            self._uses.note(ledger, kind, self._peer, now)

    def close(self) -> None:
        """The stream has ended."""
        self._uses.left(self._peer)
