"""Superfluous copies: a bookie forgets ledgers that other bookies hold whole.

Copies become superfluous when a bookie that was taken for lost returns, when it is drained, and
when it loses a race for a place. No process tells the bookie. Now and then it asks, through the
narrow port `Superfluous`, which of its ledgers do not name it, some in turn. A ledger that was
found so, and is found so again `disown_seconds` later, is proved superfluous or not. A proved one
is dropped, and its id is kept among the disowned ones (entries/retired.py): its fence stays, and
the bookie denies nothing of it.

The proof may be outrun by an order to copy the same ledger. So the bookie notes which ledgers are
put into limbo from before the proof on, and keeps these.

Not here: the proof (quire/repair/superfluous.py), how a ledger is dropped (ledger_storage.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from quire.entry import BookieId, LedgerId
from quire.errors import QuireError, RetryError
from quire.storage.entries.ledger_storage import LedgerStorage

_log = logging.getLogger(__name__)

LOOKED_MAX: Final = 2000
"""Ledgers that one round looks up: a second of a core in every ten minutes, and 60,000 ledgers of a
bookie that returned in five hours."""

PROVED_MAX: Final = 512
"""Ledgers that one round proves: 70,000 a day. Each costs a list of every named bookie."""


class Superfluous(Protocol):
    """The bookie's questions to the cluster. Both raise `QuireError` when nothing can be said, and
    another error than `RetryError` when earlier answers do not count any longer.
    """

    async def unnamed(self, ledgers: Sequence[LedgerId]) -> list[LedgerId]:
        """Return which of some ledgers are closed, do not name this bookie, and are not asked of
        it.
        """
        ...

    async def proved(self, ledgers: Sequence[LedgerId]) -> list[LedgerId]:
        """Return which of some ledgers other bookies provably hold whole, as their records name
        them. From now on no record names this bookie for one of these by a change that was decided
        before.
        """
        ...


@dataclass(slots=True)
class DisownCounts:
    """Work on superfluous copies since the start."""

    ledgers: int = 0
    """Ledgers that were forgotten because other bookies hold them whole."""
    unproved: int = 0
    """Proofs that failed: a named bookie was away, or lacked something."""
    failures: int = 0
    """Rounds without an answer of the metadata store."""


class Suspects:
    """Since when each ledger is known to be unnamed. Pure: the caller tells the time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[LedgerId, float] = {}

    def __len__(self) -> int:
        return len(self._since)

    def saw(self, looked: Iterable[LedgerId], unnamed: Iterable[LedgerId], now: float) -> None:
        """Take in a look at some ledgers. One that is named begins anew."""
        found = set(unnamed)
        for ledger in looked:
            if ledger in found:
                self._since.setdefault(ledger, now)
            else:
                self._since.pop(ledger, None)

    def due(self, now: float) -> list[LedgerId]:
        """Return the ledgers that have been unnamed for long enough, the oldest first."""
        due = (each for each, since in self._since.items() if now - since >= self._seconds)
        return sorted(due, key=lambda each: (self._since[each], each))

    def begin_anew(self, ledgers: Iterable[LedgerId], now: float) -> None:
        """Let the time of ledgers run from now."""
        for ledger in ledgers:
            self._since[ledger] = now

    def forget(self, ledgers: Iterable[LedgerId]) -> None:
        """Forget earlier answers about some ledgers."""
        for ledger in ledgers:
            self._since.pop(ledger, None)

    def clear(self) -> None:
        """Forget all earlier answers."""
        self._since.clear()


class Disowner:
    """See the module. `round` belongs to the collector (garbage.py).

    `drop` disowns proved ledgers, perhaps in borrowed space, and returns those dropped.
    """

    def __init__(
        self,
        bookie: BookieId,
        storage: LedgerStorage,
        superfluous: Superfluous,
        seconds: float,
        drop: Callable[[Sequence[LedgerId], set[LedgerId]], Awaitable[Sequence[LedgerId]]],
    ) -> None:
        self._bookie = bookie
        self._storage = storage
        self._superfluous = superfluous
        self._drop = drop
        self._suspects = Suspects(seconds)
        self._looked_to: LedgerId = -1
        self.counts: Final = DisownCounts()

    async def round(self) -> None:
        """Look at some ledgers, prove some superfluous, and drop these. Raises OSError."""
        now = asyncio.get_running_loop().time()
        try:
            await self._look(now)
            due = [each for each in self._suspects.due(now) if self._is_held(each)][:PROVED_MAX]
            doubted = self._storage.note_doubts()
            proved = await self._superfluous.proved(due) if due else []
        except QuireError as error:
            self.counts.failures += 1
            if not isinstance(error, RetryError):
                self._suspects.clear()
            _log.warning("bookie %s cannot tell what is superfluous: %s", self._bookie, error)
            return
        gone = await self._drop(proved, doubted) if proved else []
        self._suspects.begin_anew(set(due).difference(gone), now)
        self._suspects.forget(gone)
        self.counts.ledgers += len(gone)
        self.counts.unproved += len(due) - len(proved)

    async def _look(self, now: float) -> None:
        """Look at the next ledgers in turn, and notice those that were dropped otherwise."""
        held = sorted(each for each in self._storage.states if self._is_held(each))
        self._suspects.forget(each for each in self._suspects.due(now) if not self._is_held(each))
        looked = [each for each in held if each > self._looked_to][:LOOKED_MAX]
        if looked:
            self._suspects.saw(looked, await self._superfluous.unnamed(looked), now)
        self._looked_to = looked[-1] if len(looked) == LOOKED_MAX else -1

    def _is_held(self, ledger: LedgerId) -> bool:
        """Whether the bookie has something of a ledger, and is not about to fetch more."""
        state = self._storage.states.get(ledger)
        return state is not None and state.is_known and not state.in_limbo
