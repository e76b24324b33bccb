"""The state of a bookie, from its records: its standing, its registration and its heartbeat.

    up, read-only   it is registered, and no wish holds
    away, draining  an operator wishes so; an away bookie may be stopped meanwhile
    silent          it is not registered, and should be
    lost            it has been silent for so long that it may never come back
    gone            an operator gave its identity up

Silence is counted from the last heartbeat. Where the store dates its records, the date is the
store's. The time now is the clock of the process that looks, kept within `SLACK_SECONDS` after the
newest heartbeat of a registered bookie, so a clock that is wrong does not make a bookie lost while
others are up. Nothing but a display depends on it.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from quire.bookie import BookieAddress, BookieInfo
from quire.entry import BookieId
from quire.labels import NOWHERE, Labels
from quire.metastore.heartbeat import Heartbeat, Place
from quire.metastore.standing import SERVING, Standing, Wish

LOST_SECONDS: Final = 600.0
"""A bookie that is silent for so long counts as lost: longer than a restart of a machine."""

SLACK_SECONDS: Final = 60.0
"""A registered bookie has a heartbeat that is at most so old: two beats."""


class State(StrEnum):
    """See the module."""

    UP = "up"
    READ_ONLY = "read-only"
    AWAY = "away"
    SILENT = "silent"
    LOST = "lost"
    DRAINING = "draining"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class BookieFacts:
    """The facts of one bookie: the store's records, and perhaps its own answer.

    Attributes:
        bookie: its id.
        registered: its registration; None when it has none.
        version: the version of its program; empty when it is not known.
        standing: its standing.
        heartbeat: its last heartbeat; None without one.
        heard_ms: when the heartbeat was written.
        info: its answer, if it was asked and answered.
        silence: why it gave no answer, if it was asked; empty otherwise.
        damaged: its records that cannot be read, with the reason.
    """

    bookie: BookieId
    registered: BookieAddress | None = None
    version: str = ""
    standing: Standing = SERVING
    heartbeat: Heartbeat | None = None
    heard_ms: int | None = None
    info: BookieInfo | None = None
    silence: str = ""
    damaged: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """Its address, or the last known one; empty when none is known."""
        if self.registered is not None:
            return self.registered.address
        return "" if self.heartbeat is None else self.heartbeat.address

    @property
    def labels(self) -> Labels:
        """Where it is, or was last."""
        if self.registered is not None:
            return self.registered.labels
        return NOWHERE if self.heartbeat is None else self.heartbeat.labels

    @property
    def disks(self) -> tuple[Place, ...]:
        """Its directories and their space, by its last heartbeat."""
        return () if self.heartbeat is None else self.heartbeat.disks

    @property
    def in_limbo(self) -> int:
        """The ledgers that it may have lost something of, as far as is known."""
        if self.info is not None:
            return self.info.in_limbo or 0
        return 0 if self.heartbeat is None else self.heartbeat.in_limbo

    @property
    def obeys(self) -> bool:
        """Whether its program obeys a wish. Programs of the release before have no heartbeat; after
        a way back to one, the heartbeat is another program's.
        """
        return self.heartbeat is not None and self.heartbeat.version == self.version


def present_ms(clock_ms: int, bookies: Iterable[BookieFacts]) -> int:
    """Return the time now, in the terms of heartbeats."""
    heard = [each.heard_ms for each in bookies if each.registered and each.heard_ms is not None]
    if not heard:
        return clock_ms
    return min(max(clock_ms, max(heard)), max(heard) + round(SLACK_SECONDS * 1000))


def silent_seconds(facts: BookieFacts, now_ms: int) -> float | None:
    """Return for how long a bookie has been silent; None when it is not, or nothing tells."""
    if facts.registered is not None or facts.heard_ms is None:
        return None
    return max(0, now_ms - facts.heard_ms) / 1000


def state_of(facts: BookieFacts, now_ms: int, lost_seconds: float = LOST_SECONDS) -> State:
    """Return the state of a bookie."""
    wish = facts.standing.wish_at(now_ms)
    if wish is Wish.GONE:
        return State.GONE
    if wish is Wish.AWAY:
        return State.AWAY
    if facts.registered is None:
        silent = silent_seconds(facts, now_ms)
        return State.LOST if silent is not None and silent >= lost_seconds else State.SILENT
    if wish is Wish.DRAIN:
        return State.DRAINING
    writable = facts.registered.writable and (facts.info is None or facts.info.writable)
    return State.UP if writable else State.READ_ONLY
