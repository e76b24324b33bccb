"""Adds that a bookie takes in one step: they need neither to wait nor to be refused.

Nearly every add is so: of a known ledger, with its key, above all entries held, and with space
for it. All that decides is looked at for each run, in the step that puts it into the journal's
queue: a fence that was accepted before is seen, whatever came in the same message. A run that is
not taken leaves no trace. While an earlier run waits, no run is taken: none overtakes another.

Not here: adds that wait or are refused (node.py).
"""

from __future__ import annotations

from collections.abc import Collection

from quire.aio.answer import Answered
from quire.entry import OPEN_KEY, LedgerId
from quire.errors import InvalidRequestError, QuireError
from quire.observer import Source
from quire.run import ScannedRun, scan_run
from quire.storage.engine import Engine
from quire.storage.entries.write_cache import cost


class DirectAdds:
    """The direct adds of one bookie; `waiting` are the adds that are not in the journal's queue."""

    __slots__ = ("_engine", "_waiting")

    def __init__(self, engine: Engine, waiting: Collection[object]) -> None:
        self._engine = engine
        self._waiting = waiting

    def scan(self, ledger: LedgerId, run: bytes) -> ScannedRun:
        """Look through a run that came for a ledger. Raises `InvalidRequestError`."""
        scanned = scan_run(run)
        if scanned.ledger != ledger:
            raise InvalidRequestError(f"run of ledger {scanned.ledger} was sent to {ledger}")
        size_max = self._engine.options.run_bytes_max
        if len(run) > size_max:
            raise InvalidRequestError(f"run of {len(run)} bytes exceeds the limit of {size_max}")
        return scanned

    def take(
        self, run: bytes, scanned: ScannedRun, key: bytes, recovery: bool, answered: Answered
    ) -> bool:
        """Put a run into the journal's queue, if it may go there now; see `RunTaker.take`."""
        engine, size = self._engine, cost(scanned)
        if not self._is_welcome(scanned, key, recovery) or not engine.gate.try_enter(size):
            return False
        source = Source.RECOVERY if recovery else Source.WRITER
        try:
            engine.put_run(run, scanned, source, answered)
        except QuireError:
            engine.gate.leave(size)
            return False
        state = engine.storage.states[scanned.ledger]
        state.accepted = max(state.accepted, scanned.last)
        return True

    def _is_welcome(self, run: ScannedRun, key: bytes, recovery: bool) -> bool:
        """Return whether an add to a ledger needs neither to wait nor to be refused."""
        state = self._engine.storage.states.get(run.ledger)
        return (
            not self._waiting
            and state is not None
            and state.key is not None
            and state.accepts(key)
            and (
                self._engine.is_moving and (key != OPEN_KEY or run.entries[0] > state.highest)
                if recovery
                else state.fence is None
                and not state.is_fenced
                and run.entries[0] > state.highest
                and self._engine.has_room
            )
        )
