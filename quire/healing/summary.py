"""The findings of the auditor, as one small record that commands and pages show with its age.

    /quire/healing/summary       kind `healing-summary`, version 1

The record stays when the auditor is gone. Its size does not depend on how much is to be healed.
The auditor writes it whole, from its own knowledge. Nothing decides by it.

Pure, but for `read_summary`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from quire.entry import BookieId, LedgerId
from quire.errors import CorruptRecordError, NoSuchNodeError
from quire.healing.urgency import Job, Reason, Work
from quire.metastore.layout import HEALING_SUMMARY
from quire.metastore.record import RecordFormat
from quire.metastore.store import MetadataStore

FORMAT: Final = RecordFormat(
    "healing-summary",
    frozenset(
        {"at_ms", "by", "epoch", "state", "why", "ledgers", "indexed", "lost", "counts", "worst"}
        | {"totals", "bookies", "oldest_ms"}
    ),
)

WORST_MAX: Final = 20
"""Ids that a summary names."""


class State(StrEnum):
    """The present work of the auditor."""

    BUILDING = "building"
    """It reads the records of all ledgers, once."""
    IDLE = "idle"
    """There is nothing to move."""
    MOVING = "moving"
    """Bookies are asked for copies."""
    PAUSED = "paused"
    MASS_LOSS = "mass-loss"
    STUCK = "stuck"
    """No bookie may take the places that are left."""


class Count(StrEnum):
    """Kinds of ledgers that are counted; a ledger is in one of the first five at most."""

    NO_COPY = "no-copy"
    """Entries of these are on no bookie that is there."""
    ONE_COPY = "one-copy"
    """Some entry has one copy left."""
    SHORT = "short"
    """Some entry has fewer copies than it should, and more than one."""
    DRAIN = "drain"
    """A bookie that is to leave holds something of these."""
    WAITING = "waiting"
    """Not closed: they wait for their writer, or the next leader of their log."""
    HOLES = "holes"
    """A bookie lacks entries that it should have, and was asked to fetch them."""
    UNPLACED = "unplaced"
    """No bookie may take a place of these."""
    ASKED = "asked"
    """Requests that bookies work on."""
    UNREADABLE = "unreadable"
    """The records of these are damaged."""
    FEW_DOMAINS = "few-domains"
    """Copies of these are in fewer domains than their placement requires."""
    SPREAD = "spread"
    """Copies of these are whole, and may be in more domains: they move last."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The record. Times are Unix milliseconds of the auditor's clock."""

    at_ms: int
    by: str
    """The auditor, as it calls itself in its election."""
    epoch: int
    state: State
    why: str = ""
    """Why nothing moves, or why something cannot be placed."""
    ledgers: int = 0
    """All that there are, as far as is known."""
    indexed: int = 0
    """The ledgers among them with a known record."""
    lost: tuple[BookieId, ...] = ()
    """Bookies that count as lost."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """By `Count`; a later program may count more."""
    worst: tuple[LedgerId, ...] = ()
    """Some ledgers that need copies, the most urgent first."""
    totals: Mapping[str, int] = field(default_factory=dict)
    """The auditor's counts since it was elected, by the fields of `Tally`."""
    bookies: Mapping[str, int] = field(default_factory=dict)
    """How many bookies there are, by state."""
    oldest_ms: int = 0
    """When the auditor first saw the oldest open request; 0 without one."""

    def count(self, kind: Count) -> int:
        """Return how many there are of a kind."""
        return self.counts.get(str(kind), 0)

    @property
    def open(self) -> int:
        """How many ledgers need something."""
        kinds = (Count.NO_COPY, Count.ONE_COPY, Count.SHORT, Count.DRAIN, Count.HOLES)
        return sum(map(self.count, kinds))

    def age_seconds(self, now_ms: int) -> float:
        """Return how far it is from a time. A summary that a wrong clock dated ahead is as
        old as it is far ahead: its auditor may have ended since.
        """
        return abs(now_ms - self.at_ms) / 1000

    def says_the_same(self, other: Summary) -> bool:
        """Whether another summary differs in nothing but time."""
        return (self.by, self.epoch, *self._said()) == (other.by, other.epoch, *other._said())

    def _said(self) -> tuple[object, ...]:
        bookies = {state: count for state, count in self.bookies.items() if count}
        return (
            *(self.state, self.why, self.ledgers, self.lost, dict(self.counts), self.worst),
            bookies,
        )

    def encode(self) -> bytes:
        """Return the record."""
        return FORMAT.encode(self.fields())

    def fields(self) -> dict[str, Any]:
        """Return the fields as the record has them."""
        return {
            "at_ms": self.at_ms,
            "by": self.by,
            "epoch": self.epoch,
            "state": str(self.state),
            "why": self.why,
            "ledgers": self.ledgers,
            "indexed": self.indexed,
            "lost": list(self.lost),
            "counts": dict(self.counts),
            "worst": list(self.worst),
            "totals": dict(self.totals),
            "bookies": dict(self.bookies),
            "oldest_ms": self.oldest_ms,
        }

    @classmethod
    def decode(cls, path: str, data: bytes) -> Summary:
        """Return the value of a record read at `path`. Raises `CorruptRecordError`."""
        body = FORMAT.decode(path, data).body
        try:
            return cls(
                _number(body["at_ms"]),
                _text(body["by"]),
                _number(body["epoch"]),
                State(body["state"]),
                _text(body["why"]),
                _number(body["ledgers"]),
                _number(body["indexed"]),
                tuple(map(_text, _rows(body["lost"]))),
                _counts(body["counts"]),
                tuple(map(_number, _rows(body["worst"]))),
                # An auditor of an older program did not tell of these.
                _counts(body.get("totals", {})),
                _counts(body.get("bookies", {})),
                _number(body.get("oldest_ms", 0)),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptRecordError(path, f"{type(error).__name__}: {error}") from error


def sum_up(
    summary: Summary,
    work: Work,
    bare: Sequence[LedgerId],
    counts: Mapping[Count, int],
    holes: Sequence[LedgerId],
) -> Summary:
    """Return a summary with the ledgers to be healed. `bare` have entries that no bookie holds,
    `holes` lack entries on a bookie that is up.
    """
    found = Counter(_kind(each) for each in work.jobs)
    found.update(counts)
    found[Count.NO_COPY] = len({*work.stranded, *bare})
    found[Count.WAITING] = len(work.waiting)
    some = (each.ledger for each in work.jobs[:WORST_MAX])
    worst = tuple(dict.fromkeys([*work.stranded[:WORST_MAX], *bare, *some, *holes]))[:WORST_MAX]
    named = {str(kind): count for kind, count in sorted(found.items()) if count}
    return replace(summary, counts=named, worst=worst)


def _kind(job: Job) -> Count:
    if job.reason is Reason.DRAIN:
        return Count.DRAIN
    return Count.ONE_COPY if job.left == 1 else Count.SHORT


def _number(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is not an integer")
    return value


def _counts(value: object) -> dict[str, int]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is not an object")
    return {_text(key): _number(count) for key, count in value.items()}


def _rows(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


async def read_summary(store: MetadataStore) -> Summary | None:
    """Return the auditor's last findings; None before the first.

    Raises `CorruptRecordError` and the store's errors.
    """
    try:
        return Summary.decode(HEALING_SUMMARY, (await store.get(HEALING_SUMMARY)).value)
    except NoSuchNodeError:
        return None
