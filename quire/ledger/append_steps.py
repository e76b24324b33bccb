"""The steps of appends to one ledger: from payloads to frames on their way, from LAC to answers.

Nothing waits here: each step is done when its call returns, and a turn of the loop sends the
entries appended in the turn before. The calls of a writer that wait, and its end, are in writer.py.

Not here: which payloads are taken, why appends fail, and when the writer ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from quire.aio.later import Later
from quire.entry import EntryId, Sealer
from quire.ledger.deadlines import Deadlines
from quire.ledger.ensemble import Ensemble
from quire.ledger.explicit_lac import ExplicitLac
from quire.ledger.forcing import Forcing
from quire.ledger.options import LedgerOptions
from quire.ledger.pending_appends import PendingAppends, Request
from quire.metrics.meter import ClientMeter
from quire.observer import Observer


class AppendSteps:
    """The steps of one writer, for as long as it takes appends."""

    __slots__ = (
        "_backlog",
        "_is_flushing",
        "_is_over",
        "_loop",
        "_observer",
        "_sealer",
        "_told",
        "_window",
        "appends",
        "deadlines",
        "ensemble",
        "explicit_lac",
        "forcing",
    )

    def __init__(
        self,
        ensemble_of: Callable[[Callable[[EntryId], None]], Ensemble],
        sealer: Sealer,
        options: LedgerOptions,
        observer: Observer,
        meter: ClientMeter,
        later: Later,
        expire: Callable[[], None],
    ) -> None:
        """Begin with an ensemble, made by `ensemble_of` with the step for a LAC that moved.

        `observer` is told of confirmed entries, `meter` of appends. `later` waits for an explicit
        LAC. `expire` is called when a run or an append may have taken too long.
        """
        self._loop = asyncio.get_running_loop()
        self._sealer = sealer
        self._observer = observer
        self.ensemble = ensemble_of(self.confirmed)
        self.appends = PendingAppends(meter, self.ensemble.answered)
        self.forcing = Forcing(self.ensemble.sync)
        self._window = self.ensemble.window
        self._backlog = self.ensemble.backlog
        self._told = self._window.lac
        self._is_flushing = False
        self._is_over = False
        self.explicit_lac = ExplicitLac(later, self._tell_lac, told=self._told)
        self.deadlines = Deadlines(self.ensemble, self.appends, options, expire)

    def append(
        self, payload: bytes, admitted: asyncio.Future[None] | None = None
    ) -> asyncio.Future[EntryId]:
        """Append an entry, or queue it until there is space; the future has its id.

        `admitted` is resolved when there is space.
        """
        answer: asyncio.Future[EntryId] = self._loop.create_future()
        now = self._loop.time()
        entry = None if self.appends.is_waiting else self._push(payload)
        if entry is None:
            self.appends.wait(Request((payload,), True, now, answer, admitted))
            self._flush_soon()
        else:
            self.appends.expect(entry, answer, entry, now)
            if admitted is not None:
                admitted.set_result(None)
        return answer

    def request(self, payloads: Sequence[bytes]) -> asyncio.Future[Any]:
        """Append entries after all others; the future has the range of their ids."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        self.appends.wait(Request(payloads, False, self._loop.time(), answer))
        self._admit()
        self.appends.resolve(self.ensemble.answered)
        return answer

    def confirmed(self, lac: EntryId) -> None:
        """Answer callers, let waiting ones in, and see that followers learn of LAC."""
        if lac > self._told:
            self._told = lac
            self._observer.confirmed(self.ensemble.ledger, lac)
        self.appends.resolve(self.ensemble.answered)
        self.forcing.confirmed(lac)
        if self.appends.is_waiting:
            self._admit()
        self.explicit_lac.confirmed(lac)

    @property
    def may_rest(self) -> bool:
        """Whether nothing is on its way: no entry, no answer, and no LAC to tell."""
        lac = self._window.lac
        return (
            not self._is_flushing
            and not self._is_over
            and self.appends.oldest is None
            and self.forcing.wanted <= lac
            and self.explicit_lac.told >= lac
            and self.ensemble.may_rest
        )

    def ensemble_changed(self) -> None:
        """Go on with other bookies."""
        self.ensemble.pump()
        self.confirmed(self._window.lac)
        self.deadlines.watch()

    def stop(self) -> None:
        """Send, count and tell nothing any more."""
        self._is_over = True
        self.deadlines.cancel()
        self.explicit_lac.stop()
        self.ensemble.stop()

    def _push(self, payload: bytes) -> EntryId | None:
        """Seal the next entry, to be sent in this turn of the loop; None without enough space."""
        window = self._window
        if not self.ensemble.is_room(len(payload)):
            self.forcing.want(window.pushed)
            return None
        length = self._backlog.length + len(payload)
        parts = self._sealer.parts(window.pushed + 1, window.lac, length, payload)
        self.explicit_lac.told = window.lac
        if not self._is_flushing:
            self._flush_soon()
        return self.ensemble.push(parts, length)

    def _admit(self) -> None:
        self.appends.admit(self._push, self._window.pushed)
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Send the entries appended in this turn of the loop."""
        self._is_flushing = False
        if not self._is_over:
            self.explicit_lac.sent()
            if self.appends.is_waiting:
                self.appends.admit(self._push, self._window.pushed)
            self.ensemble.pump()
            self.deadlines.watch()

    def _tell_lac(self, lac: EntryId) -> None:
        self.ensemble.tell_lac(self._sealer.seal_lac(lac))
