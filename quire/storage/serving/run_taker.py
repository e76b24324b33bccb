"""Port: runs that a bookie takes in one step, without a task or a future for each of them.

It stands beside the port `Bookie`: nearly all runs of a bookie need neither to wait nor to be
refused. Law, for every implementation:

  - `take` decides in one step, by the rules of `Bookie.add`: key, fence, id and space of this run.
  - A run that is not taken leaves no trace. It goes to `Bookie.add`, which waits or says why not.
  - While an earlier run of the ledger waits in `add`, no run of that ledger is taken.
  - `answered` is called once for a run that was taken, and never before the call has returned.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from quire.aio.answer import Answered
from quire.entry import LedgerId


@runtime_checkable
class RunTaker(Protocol):
    """A bookie that takes runs in one step."""

    def take(
        self, ledger: LedgerId, key: bytes, run: bytes, recovery: bool, answered: Answered
    ) -> bool:
        """Take a run if it need not wait and is not refused; raises nothing.

        Args:
            ledger: the ledger.
            key: the access key, as the writer gave it.
            run: the frames.
            recovery: as in `Bookie.add`.
            answered: called when the run is durable and applied, or with the error that it met.

        Returns:
            Whether the run was taken.
        """
        ...
