"""Adds that a bookie takes in one step: they need neither to wait nor to be refused.

Nearly every add is so: of a known ledger, with its key, above all entries held, and with space
for it. All that decides is looked at for each run, in the step that puts it into the journal's
queue: a fence that was accepted before is seen, whatever came in the same message. A run that is
not taken leaves no trace. While an earlier run waits, no run is taken: none overtakes another.

Not here: adds that wait or are refused (node.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import NamedTuple

from quire.aio.answer import Answered
from quire.entry import OPEN_KEY, LedgerId
from quire.errors import InvalidRequestError, QuireError
from quire.observer import Source
from quire.requests import Trace
from quire.run import ScannedRun, scan_run
from quire.storage.engine import Engine
from quire.storage.entries.ledger_state import LedgerState
from quire.storage.entries.write_cache import cost
from quire.storage.serving.offered_run import OfferedRun


class _Mood(NamedTuple):
    """What holds for all runs of one step."""

    now: float
    has_room: bool
    """Whether entries of writers are taken."""
    is_moving: bool
    """Whether entries of recoveries are."""


class DirectAdds:
    """The direct adds of one bookie; `waiting` are the adds that are not in the journal's queue."""

    __slots__ = ("_engine", "_waiting")

    def __init__(self, engine: Engine, waiting: Collection[object]) -> None:
        self._engine = engine
        self._waiting = waiting

    def scan(self, ledger: LedgerId, run: bytes) -> ScannedRun:
        """Look through a run that came for a ledger. Raises `InvalidRequestError`."""
        size_max = self._engine.options.run_bytes_max
        if len(run) > size_max:
            raise InvalidRequestError(f"run of {len(run)} bytes exceeds the limit of {size_max}")
        scanned = scan_run(run)
        if scanned.ledger != ledger:
            raise InvalidRequestError(f"run of ledger {scanned.ledger} was sent to {ledger}")
        return scanned

    def take(self, offers: Sequence[OfferedRun], first: int) -> int:
        """Put runs into the journal's queue, as many as may go there now; see `RunTaker.take`."""
        if self._waiting:
            return first
        mood, index = self._mood(), first
        while index < len(offers):
            offer = offers[index]
            try:
                scanned = self.scan(offer.ledger, offer.run)
            except InvalidRequestError:
                break
            if not self._put(
                offer.run, scanned, offer.key, offer.recovery, offer.tell, mood, offer
            ):
                break
            index += 1
        return index

    def take_one(
        self, run: bytes, scanned: ScannedRun, key: bytes, recovery: bool, answered: Answered
    ) -> bool:
        """Put a run into the journal's queue, if it may go there now."""
        if self._waiting:
            return False
        return self._put(run, scanned, key, recovery, answered, self._mood(), None)

    def _mood(self) -> _Mood:
        engine = self._engine
        return _Mood(asyncio.get_running_loop().time(), engine.has_room, engine.is_moving)

    def _put(
        self,
        run: bytes,
        scanned: ScannedRun,
        key: bytes,
        recovery: bool,
        answered: Answered,
        mood: _Mood,
        trace: Trace | None,
    ) -> bool:
        engine = self._engine
        state = engine.storage.states.get(scanned.ledger)
        if state is None or not self._is_welcome(state, scanned, key, recovery, mood):
            return False
        size = cost(scanned)
        if not engine.gate.try_enter(size):
            return False
        source = Source.RECOVERY if recovery else Source.WRITER
        try:
            engine.runs.put(run, scanned, source, answered, mood.now, trace)
        except QuireError:
            engine.gate.leave(size)
            return False
        if (last := scanned.last) > state.accepted:
            state.accepted = last
        return True

    def _is_welcome(
        self, state: LedgerState, run: ScannedRun, key: bytes, recovery: bool, mood: _Mood
    ) -> bool:
        """Return whether an add to a ledger needs neither to wait nor to be refused."""
        if state.key is None or not state.accepts(key):
            return False
        if recovery:
            return mood.is_moving and (key != OPEN_KEY or run.entries[0] > state.highest)
        return (
            mood.has_room
            and state.fence is None
            and not state.is_fenced
            and run.entries[0] > state.highest
        )
