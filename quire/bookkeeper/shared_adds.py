"""Runs as requests to bookies of Apache's, made once for all bookies that are sent a run.

Senders that keep step send the same run. A request differs between connections by its transaction
alone, so all connections of a client draw transactions from one counter. To take a run apart and to
encode its adds was most of a writer's work, and was done once for each copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from quire.bookkeeper import wire3
from quire.entry import EntryId, LedgerId
from quire.errors import InvalidRequestError
from quire.run import scan_run


class Transactions:
    """The transactions of all connections of a client: no two requests share one."""

    def __init__(self) -> None:
        self._next = 0

    def take(self, count: int) -> int:
        """Return the first of so many transactions."""
        first = self._next
        self._next += count
        return first


class PreparedRun(NamedTuple):
    """A run as the requests that carry its frames."""

    transaction: int
    """The first request's; they ascend by one."""
    entries: Sequence[EntryId]
    pieces: list[bytes | memoryview]


class _Last(NamedTuple):
    """The run that was prepared last, and the links that have sent it."""

    run: bytes
    asked: tuple[LedgerId, bytes, bool, bool]
    prepared: PreparedRun
    senders: set[object]


class SharedAdds:
    """Prepares the runs of one client."""

    def __init__(self) -> None:
        self.transactions: Final = Transactions()
        self._last: _Last | None = None

    def prepare(
        self,
        sender: object,
        ledger: LedgerId,
        key: bytes,
        run: bytes,
        *,
        recovery: bool = False,
        deferred: bool = False,
    ) -> PreparedRun:
        """Return a run as requests. The run of the call before, the same object, is prepared
        already, unless this sender has sent it: the answers to both could not be told apart.

        Args:
            sender: the link that sends it.
            ledger: the ledger of the run.
            key: its access key.
            run: the frames.
            recovery: whether the adds pass a fence.
            deferred: whether they are answered before they are synced.

        Raises:
            InvalidRequestError: the run is of another ledger, or has a frame that a bookie's
                messages have no space for.
            CorruptEntryError: the run cannot be taken apart.
        """
        last, asked = self._last, (ledger, key, recovery, deferred)
        is_same = last is not None and last.run is run and last.asked == asked
        if is_same and last is not None and sender not in last.senders:
            last.senders.add(sender)
            return last.prepared
        scanned = scan_run(run)
        if scanned.ledger != ledger:
            raise InvalidRequestError(f"run is of ledger {scanned.ledger}, not {ledger}")
        view = memoryview(run)
        frames = [(at.entry, view[at.offset : at.offset + at.size]) for at in scanned.frames]
        largest = max(len(frame) for _, frame in frames)
        if largest > wire3.FRAME_BYTES_MAX:
            raise InvalidRequestError(
                f"a frame of {largest} bytes exceeds {wire3.FRAME_BYTES_MAX}, the limit of "
                "a bookie's messages (nettyMaxFrameSizeBytes): append smaller entries"
            )
        first = self.transactions.take(len(frames))
        encoder = wire3.AddEncoder(ledger, key, recovery=recovery, deferred=deferred)
        prepared = PreparedRun(first, scanned.entries, encoder.encode(first, frames))
        self._last = _Last(run, asked, prepared, {sender})
        return prepared
