"""Values that the sampler gathers, as of one look: what pages and the API are made from. Pure.

Times are Unix milliseconds of the console's clock. A part that could not be read keeps its last
value and says why (`trouble`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from quire.console.ring import Point
from quire.entry import BookieId
from quire.gateway.place import GatewayPlace
from quire.gateway.status import GatewayStatus
from quire.healing.state import BookieFacts, State
from quire.healing.verdict import ClusterFacts
from quire.repair.assignments import Assignments
from quire.view.followers import FollowersView, followers_of
from quire.view.users import UsersView, users_of
from quire.view.values import ClientView, CursorView, LogView

USED, RECORDS, LEDGERS, LOGS = "used_bytes", "records", "ledgers", "logs"
FIGURES: Final = (USED, RECORDS, LEDGERS, LOGS)
"""The figures of a cluster over a day: bytes used on disks, records of all logs, ledgers, logs."""


@dataclass(frozen=True, slots=True)
class BookiePace:
    """How quick a bookie is, over the last looks.

    Attributes:
        answer_seconds: the median time that it took to answer the console; None without an answer.
        journal_seconds: the mean time of a write with its sync in the journal, which every append
            waits for; None while nothing was written.
        batches_per_second: how many such writes there were a second.
        entries_per_second: how many entries they had; of several copies, each bookie counts one.
        journal_p99: the seconds that 99 of 100 of its last 1,024 writes kept.
        waiting: the records that waited for a write at the last look.
    """

    answer_seconds: float | None = None
    journal_seconds: float | None = None
    batches_per_second: float | None = None
    entries_per_second: float | None = None
    journal_p99: float | None = None
    waiting: int | None = None
    pushed_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class LogLook:
    """A log when it was looked at, and the records a second that it took then."""

    view: LogView
    at_ms: int
    per_second: float | None = None


class GatewayLook(NamedTuple):
    """A gateway when it was asked, and its rates then.

    Attributes:
        place: where its clients reach it.
        status: its answer; None if it did not answer.
        at_ms: when it said so.
        trouble: why it gave no status; empty if it did.
    """

    place: GatewayPlace
    status: GatewayStatus | None = None
    at_ms: int = 0
    requests_per_second: float | None = None
    append_bytes_per_second: float | None = None
    read_bytes_per_second: float | None = None
    trouble: str = ""


class LogCursor(NamedTuple):
    """A reader's place in a log that was looked at."""

    log: str
    cursor: CursorView


@dataclass(frozen=True, slots=True)
class ClusterLook:
    """A cluster, as far as the sampler has looked."""

    at_ms: int
    store: str
    facts: ClusterFacts | None = None
    """None before the first look that succeeded."""
    facts_ms: int = 0
    trouble: str = ""
    """Why the last look failed; empty when it did not."""
    paces: Mapping[BookieId, BookiePace] = field(default_factory=dict)
    log_names: Sequence[str] = ()
    logs: Mapping[str, LogLook] = field(default_factory=dict)
    """The logs that were looked at so far; with many logs, some looks ago."""
    clients: Sequence[ClientView] = ()
    moves: Mapping[BookieId, Assignments] = field(default_factory=dict)
    figures: Mapping[str, Sequence[Point]] = field(default_factory=dict)
    """The growth of the cluster over a day, by name (`FIGURES`)."""
    log_days: Mapping[str, Sequence[Point]] = field(default_factory=dict)
    """The same of the ends of logs; only of the quickest ones."""
    gateways: Sequence[GatewayLook] = ()
    since_ms: int = 0
    """The begin of the console: no figure is older."""

    def pace(self, bookie: BookieId) -> BookiePace:
        """Return how quick a bookie is."""
        return self.paces.get(bookie, BookiePace())

    @property
    def users(self) -> UsersView:
        """The processes that use ledgers, as the bookies that answered know them."""
        facts = () if self.facts is None else self.facts.bookies
        return users_of(each.info for each in facts if each.info is not None)

    @property
    def followers(self) -> FollowersView | None:
        """The subscriptions of followers; None if no bookie tells."""
        facts = () if self.facts is None else self.facts.bookies
        return followers_of(each.info for each in facts if each.info is not None)

    def members_of(self, *states: State) -> list[BookieFacts]:
        """Return the bookies in some states."""
        if self.facts is None:
            return []
        return [each for each in self.facts.bookies if self.facts.state(each) in states]
