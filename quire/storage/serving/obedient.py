"""The guard before a bookie that obeys an operator: it takes no new entries while it is off duty.

A bookie that an operator set away, or is draining, takes no ordinary entries: its registration says
so, and an add is refused as by a read-only bookie. Writers then replace it in milliseconds, and
programs of the release before obey without knowing. Reads, fences, recoveries and everything else
go on: a bookie off duty denies nothing.

Every writer that is refused changes its ensemble, which costs the metadata store a change. So a
ledger that the bookie already holds is refused at a moment of its own, drawn from its id, within
`CHANGE_SECONDS`. A ledger that is new to the bookie is refused at once.

Not here: the wish itself (quire/storage/identity/wish_watch.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

from quire.bookie import Bookie, BookieInfo, refused
from quire.entry import BookieId, LedgerId
from quire.errors import ReadOnlyBookieError
from quire.storage.serving.forwarding import ForwardingBookie
from quire.storage.serving.offered_run import OfferedRun

CHANGE_SECONDS: Final = 5.0
"""Within so many seconds all writers leave a bookie. A thousand of them make 200 changes a second,
a fifth of the rate of a store of three servers."""

_GOLDEN: Final = 0x9E3779B97F4A7C15
"""2⁶⁴ divided by the golden ratio: its multiples of consecutive ids spread evenly."""


def turn(ledger: LedgerId) -> float:
    """Return a ledger's place, from 0 to 1, among the ledgers that leave a bookie. Pure."""
    return (ledger * _GOLDEN % 2**64) / 2**64


class ObedientBookie(ForwardingBookie):
    """Port 1: another bookie, which refuses ordinary adds while it is off duty.

    `knows` tells whether the bookie has a ledger already.
    """

    def __init__(self, bookie: Bookie, name: BookieId, knows: Callable[[LedgerId], bool]) -> None:
        super().__init__(bookie, name)
        self._knows = knows
        self._off_since: float | None = None
        self._wish = ""
        self._refusals = 0

    @property
    def is_off_duty(self) -> bool:
        """Whether ordinary adds are refused, or will be within `CHANGE_SECONDS`."""
        return self._off_since is not None

    def take_entries(self) -> None:
        """Be on duty from now on."""
        self._off_since, self._wish = None, ""

    def take_none(self, wish: str) -> None:
        """Be off duty from now on; `wish` names the operator's wish, for errors and counters."""
        self._wish = wish
        if self._off_since is None:
            self._off_since = asyncio.get_running_loop().time()

    def add(
        self,
        ledger: LedgerId,
        key: bytes,
        run: bytes,
        *,
        recovery: bool = False,
        deferred: bool = False,
    ) -> Awaitable[None]:
        """See `Bookie.add`. Raises `ReadOnlyBookieError` while the bookie is off duty."""
        if self._off_since is not None and not recovery and self._refuses(ledger, self._off_since):
            self._refusals += 1
            reason = f"an operator's wish is in force: {self._wish}"
            return refused(ReadOnlyBookieError(self.name, reason))
        return super().add(ledger, key, run, recovery=recovery, deferred=deferred)

    def take(self, offers: Sequence[OfferedRun], first: int) -> int:
        """See `RunTaker.take`. Off duty nothing is taken in one step: `add` decides."""
        return first if self._off_since is not None else super().take(offers, first)

    def _refuses(self, ledger: LedgerId, since: float) -> bool:
        now = asyncio.get_running_loop().time()
        return now >= since + CHANGE_SECONDS * turn(ledger) or not self._knows(ledger)

    async def info(self) -> BookieInfo:
        """See `Bookie.info`: off duty the bookie says that it takes no new entries."""
        info = await super().info()
        counters = {
            **info.counters,
            "standing_away": int(self._wish == "away"),
            "standing_draining": int(self._wish == "drain"),
            "standing_adds_refused": self._refusals,
        }
        writable = info.writable and not self.is_off_duty
        return replace(info, writable=writable, counters=counters)
