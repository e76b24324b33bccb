"""The memory of a bookie: its ledgers' states, and the entries since the last flush.

Here is neither a task nor a coroutine, so the module can be compiled (compiling.py). Not here:
files, and when memory moves into them (ledger_storage.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quire.entry import LedgerId
from quire.run import ScannedRun
from quire.storage.entries.ledger_state import LedgerState
from quire.storage.entries.write_cache import WriteCache, cost


class EntryMemory:
    """The memory of one bookie.

    Args:
        begin: returns the state of a ledger that has none yet, None if the ledger was dropped.
    """

    def __init__(self, begin: Callable[[LedgerId], LedgerState | None]) -> None:
        self._begin = begin
        self.states: Final[dict[LedgerId, LedgerState]] = {}
        self.changed: dict[LedgerId, None] = {}
        """The ledgers whose state the next flush writes."""
        self.cache = WriteCache()

    def apply_run(self, run: ScannedRun) -> bool:
        """Return whether a durable run is kept: a ledger that was dropped takes none."""
        assert run.is_ascending, f"the run of ledger {run.ledger} is not in order of its ids"
        ledger = run.ledger
        state = self.states.get(ledger)
        if state is None:
            state = self._begin(ledger)
        if state is None:
            self.cache.bytes += cost(run)  # given back by the next flush, as if it were kept
            return False
        self.cache.insert(run)
        self.changed[ledger] = None
        if run.last > state.last:
            state.last = run.last
        if run.lac > state.hint:
            state.hint = run.lac
        state.wake()
        return True
