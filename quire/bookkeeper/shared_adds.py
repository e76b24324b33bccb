"""Runs as requests to bookies of Apache's, made once for all bookies that are sent a run.

Senders that keep step send the same run. A request differs between connections by its transaction
alone, so all connections of a client draw transactions from one counter. To take a run apart and to
encode its adds was most of a writer's work, and was done once for each copy.
"""

from __future__ import annotations

from operator import sub
from typing import Final, NamedTuple

from quire.bookkeeper.add_bundles import AddBundle, bundle
from quire.bookkeeper.wire3 import FRAME_BYTES_MAX, AddEncoder
from quire.errors import InvalidRequestError
from quire.run import SIZE, scan_run
from quire.wire.adds import AddKind


class Transactions:
    """The transactions of all connections of a client: no two requests share one."""

    def __init__(self) -> None:
        self._next = 0

    def take(self, count: int) -> int:
        """Return the first of so many transactions."""
        first = self._next
        self._next += count
        return first


ENCODERS_MAX: Final = 64
"""Ledgers with an encoder that is kept for the next run. One with frames of many sizes takes up to
0.4 MB.
"""


class _Last(NamedTuple):
    """The run that was prepared last, and the links that have sent it."""

    run: bytes
    kind: AddKind
    prepared: AddBundle
    senders: set[object]


class SharedAdds:
    """Prepares the runs of one client."""

    def __init__(self) -> None:
        self.transactions: Final = Transactions()
        self._last: _Last | None = None
        self._encoders: dict[AddKind, AddEncoder] = {}

    def prepare(self, sender: object, kind: AddKind, run: bytes) -> AddBundle:
        """Return a run as requests. The run of the call before, the same object, is prepared
        already, unless this sender has sent it: the answers to both could not be told apart.

        Args:
            sender: the link that sends it.
            kind: the ledger of the run and its access key, and how it is written.
            run: the frames.

        Raises:
            InvalidRequestError: the run is of another ledger, or has a frame that a bookie's
                messages have no space for.
            CorruptEntryError: the run cannot be taken apart.
        """
        last = self._last
        is_same = last is not None and last.run is run and last.kind == kind
        if is_same and last is not None and sender not in last.senders:
            last.senders.add(sender)
            return last.prepared
        scanned = scan_run(run)
        if scanned.ledger != kind.ledger:
            raise InvalidRequestError(f"run is of ledger {scanned.ledger}, not {kind.ledger}")
        bounds = scanned.bounds
        sizes = [scanned.stride] if scanned.stride else map(sub, bounds[1:], bounds)
        largest = max(sizes) - SIZE.size
        if largest > FRAME_BYTES_MAX:
            raise InvalidRequestError(
                f"a frame of {largest} bytes exceeds {FRAME_BYTES_MAX}, the limit of "
                "a bookie's messages (nettyMaxFrameSizeBytes): append smaller entries"
            )
        first = self.transactions.take(scanned.count)
        prepared = bundle(self._encoder(kind), first, scanned)
        self._last = _Last(run, kind, prepared, {sender})
        return prepared

    def _encoder(self, kind: AddKind) -> AddEncoder:
        found = self._encoders.pop(kind, None)
        if found is None:
            ledger, key, recovery, deferred = kind
            found = AddEncoder(ledger, key, recovery=recovery, deferred=deferred)
            if len(self._encoders) >= ENCODERS_MAX:
                del self._encoders[next(iter(self._encoders))]
        self._encoders[kind] = found  # last: the one used longest ago is given up first
        return found
