"""Port: runs of one writer, sent without a future for each of them.

It stands beside the port `Bookie`, because a bookie need not have it: to a bookie without it a
sender calls `Bookie.add`. A future costs two callbacks of the event loop, and a service with many
ledgers sends a run for each append and copy. Law, for every implementation:

  - What holds for `Bookie.add` holds for `send`: the order of calls, the errors, the retries.
  - `answered` is called once, and never before the call has returned.
"""

from __future__ import annotations

from typing import Final, Protocol, runtime_checkable

from quire.aio.answer import Answered
from quire.wire.adds import RunEncoder


@runtime_checkable
class RunLink(Protocol):
    """A link to a bookie that takes runs without futures."""

    def send(self, encoder: RunEncoder, run: bytes, answered: Answered) -> None:
        """Send a run after all others.

        Args:
            encoder: the encoder of the run's writer. Links that get the same run prepare it once.
            run: the frames.
            answered: called with None when the run is durable, or with its error.

        Raises:
            QuireError: the run was not sent; `answered` is not called.
        """
        ...


_KINDS: Final = dict[type, bool]()
"""Whether links of a class are `RunLink`s: a sender asks for each of its bookies."""


def run_link(bookie: object) -> RunLink | None:
    """Return a link to a bookie if it takes runs without futures."""
    kind = type(bookie)
    known = _KINDS.get(kind)
    if known is None:
        known = _KINDS[kind] = isinstance(bookie, RunLink)
    return bookie if known else None  # type: ignore[return-value]
