"""A run on its way through a bookie, as the port of run_taker.py offers it."""

from __future__ import annotations

from quire.aio.answer import Answered
from quire.entry import LedgerId
from quire.requests import Trace


class OfferedRun(Trace):
    """A run that is offered to a bookie.

    Args:
        arrived: when it came, by the clock of the loop.
        ledger: the ledger.
        key: the access key, as the writer gave it.
        run: the frames.
        recovery: as in `Bookie.add`.
        answered: called when the run is durable and applied, or with the error that it met. A
            bookie in front of another may put a call of its own before it, once the run is taken.
    """

    __slots__ = ("answered", "key", "ledger", "recovery", "run")

    def __init__(
        self,
        arrived: float,
        ledger: LedgerId,
        key: bytes,
        run: bytes,
        recovery: bool,
        answered: Answered,
    ) -> None:
        super().__init__(arrived)
        self.ledger = ledger
        self.key = key
        self.run = run
        self.recovery = recovery
        self.answered = answered

    def tell(self, outcome: Exception | None) -> None:
        """Tell the outcome of the run."""
        self.answered(outcome)
