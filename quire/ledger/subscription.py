"""Port: the news of one ledger, sent by a bookie as they come, against credit.

It stands beside the port `Bookie`, because a bookie need not have it: a bookie without it is asked
instead (`tail`). Law, for every implementation (docs/protocol.md, "Subscriptions"):

  - News prove nothing: the client verifies every byte, and believes only the proven.
  - News deny nothing: entries may be missing between others.
  - No more comes than there is credit for, and credit is given back by `give_back` only.
  - A fence or an error ends a subscription. It never begins again: its user makes another.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from quire.entry import NO_ENTRY, EntryId, LedgerId


class PushedNews(NamedTuple):
    """The message of a bookie for one subscription. Nothing of it is verified."""

    run: bytes = b""
    """Entries that it holds, confirmed or not; empty for none."""
    lac_packet: bytes | None = None
    hint: EntryId = NO_ENTRY
    """The highest LAC that this and earlier news should prove."""
    fenced: bool = False


class Subscription(Protocol):
    """One subscription. One task at a time may wait for its news."""

    @property
    def is_over(self) -> bool:
        """Whether it has ended, and all news were taken."""
        ...

    async def next(self) -> PushedNews:
        """Return the next news; when nothing happens, after a while news that say so.

        Cancelling loses none. Raises the error that ended the subscription, and
        `BookieUnavailableError` when none came in time.
        """
        ...

    def give_back(self, first: EntryId) -> None:
        """Let the bookie send as much again as was taken, and no entry below `first`."""
        ...

    def close(self) -> None:
        """End the subscription. Harmless when it is over."""
        ...


@runtime_checkable
class Subscribable(Protocol):
    """A link to a bookie that may serve subscriptions."""

    async def subscribe(
        self, ledger: LedgerId, above: EntryId, first: EntryId, quiet: float
    ) -> Subscription | None:
        """Begin a subscription; None if the bookie has to be asked instead.

        Args:
            ledger: the ledger.
            above: news are wanted when a LAC is above it.
            first: entries are wanted from it on.
            quiet: seconds after which the bookie sends empty news.

        Raises:
            BookieUnavailableError: the connection failed.
            RefusedError: the bookie refuses this program.
            UntrustedBookieError: another server answers.
        """
        ...
