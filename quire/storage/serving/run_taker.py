"""Port: runs that a bookie takes in one step, without a task or a future for each of them.

It stands beside the port `Bookie`: nearly all runs of a bookie need neither to wait nor to be
refused. A message brings runs of many ledgers, and they are offered together: what holds for the
whole step is looked at once. Law, for every implementation:

  - `take` decides in one step, and for each run alone, by the rules of `Bookie.add`: key, fence, id
    and space of this run.
  - Runs are taken in order. The first that must wait or is refused ends the step. It leaves no
    trace and goes to `Bookie.add`, which waits or says why not.
  - While an earlier run of a ledger waits in `add`, no run of that ledger is taken.
  - `answered` is called once for a run that was taken, and never before the call has returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from quire.storage.serving.offered_run import OfferedRun


@runtime_checkable
class RunTaker(Protocol):
    """A bookie that takes runs in one step."""

    def take(self, offers: Sequence[OfferedRun], first: int) -> int:
        """Take runs, up to one that must wait or is refused; raises nothing.

        Args:
            offers: runs of any ledgers, in the order of their arrival.
            first: the index of the first that is offered.

        Returns:
            The index of the first that was not taken, the number of offers if there is none.
        """
        ...
