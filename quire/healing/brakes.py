"""The brakes of healing: which bookies count as lost, and when nothing may move. Pure.

    delay      a bookie is lost when it has been missing for some time by the auditor's own clock,
               which only runs while the auditor looks. A new auditor begins anew
    away       an operator's wish keeps a bookie from counting as missing: for a bounded time, and
               only while no other bookie that holds something is lost
    pause      an operator's switch, with a reason and an end
    mass loss  many bookies missing at once have a common cause, mostly the network. Nothing moves
               until they are back, or until an operator says go for these bookies

A bookie that takes no new entries is not missing. Times of records are never believed without a
bound: a wish or a pause ends after the seconds that its record names, by the auditor's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from quire.entry import BookieId
from quire.healing.state import BookieFacts
from quire.healing.switch import Switch
from quire.healing.verdict import MISSING_SHARE_MAX, duration
from quire.metastore.standing import Wish

Holds = Callable[[BookieId], bool]
"""Whether a closed ledger names a bookie."""


@dataclass(frozen=True, slots=True)
class Missing:
    """The bookies that are not registered, at one time."""

    lost: frozenset[BookieId] = frozenset()
    """Missing for the whole delay, or given up by an operator."""
    gone: frozenset[BookieId] = frozenset()
    """The lost bookies that an operator gave up: no accident."""
    silent: frozenset[BookieId] = frozenset()
    """Missing, and not yet lost."""
    away: frozenset[BookieId] = frozenset()
    """Missing because an operator wishes so."""
    wished: frozenset[BookieId] = frozenset()
    """Missing while an operator's wish for it holds, whatever they count as: no accident."""
    seconds: float | None = None
    """Until the next of the silent may be lost."""


class Boxes:
    """Remembers since when this process knows a record that ends at a time."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int, int], float] = {}

    def holds(self, name: str, since_ms: int, until_ms: int, now_ms: int, now: float) -> bool:
        """Whether the time is not over, neither by the wall clock nor by the own one."""
        key = (name, since_ms, until_ms)
        first = self._seen.setdefault(key, now)
        self._seen = {each: at for each, at in self._seen.items() if each[0] != name or each == key}
        return now_ms < until_ms and (now - first) * 1000 < until_ms - since_ms


class Silence:
    """Since when each bookie is missing, by the auditor's monotonic clock."""

    def __init__(self, delay: float) -> None:
        """`delay` are the seconds until a bookie that is missing counts as lost."""
        self._delay = delay
        self._since: dict[BookieId, float] = {}
        self._boxes = Boxes()

    def look(
        self, facts: Iterable[BookieFacts], now_ms: int, began: float, now: float, holds: Holds
    ) -> Missing:
        """Take in facts that were gathered between two times, and return the bookies that are
        missing. Both are counted in a bookie's favour, however long the gathering took: it is
        missing only since the end, and only until the beginning.
        """
        absent = [each for each in facts if each.registered is None]
        gone = {each.bookie for each in absent if each.standing.wish is Wish.GONE}
        missing = {each.bookie for each in absent} - gone
        wished = away = {
            each.bookie
            for each in absent
            if each.bookie in missing and self._away(each, now_ms, now)
        }
        self._count(missing - away, now, keep=away)
        lost = self._lost(began, missing - away)
        if any(holds(each) for each in sorted(lost)):
            away = set()
            self._count(missing, now)
            lost = self._lost(began, missing)
        else:
            for each in away:
                self._since.pop(each, None)
        silent = missing - away - lost
        left = [self._since[each] + self._delay - now for each in silent]
        return Missing(
            *(frozenset(lost | gone), frozenset(gone), frozenset(silent), frozenset(away)),
            *(frozenset(wished), min(left, default=None)),
        )

    def _away(self, each: BookieFacts, now_ms: int, now: float) -> bool:
        standing = each.standing
        if standing.wish is not Wish.AWAY or standing.until_ms is None:
            return False
        return self._boxes.holds(each.bookie, standing.since_ms, standing.until_ms, now_ms, now)

    def _count(self, missing: set[BookieId], now: float, keep: Iterable[BookieId] = ()) -> None:
        kept = missing.union(keep)
        self._since = {each: at for each, at in self._since.items() if each in kept}
        for each in missing:
            self._since.setdefault(each, now)

    def _lost(self, until: float, missing: set[BookieId]) -> set[BookieId]:
        return {each for each in missing if until - self._since[each] >= self._delay}


class Code(StrEnum):
    """Why nothing moves."""

    PAUSED = "paused"
    MASS_LOSS = "mass-loss"


class Brake(NamedTuple):
    """Nothing may move, and why."""

    code: Code
    text: str


@dataclass(slots=True)
class Brakes:
    """Decides whether anything may move."""

    _boxes: Boxes = field(default_factory=Boxes)

    def brake(
        self,
        facts: Sequence[BookieFacts],
        missing: Missing,
        switch: Switch,
        now_ms: int,
        now: float,
        holds: Holds,
    ) -> Brake | None:
        """Return why nothing may move; None when moves are allowed."""
        pause = switch.pause
        if pause is not None and self._boxes.holds(
            "pause", pause.since_ms, pause.until_ms, now_ms, now
        ):
            left = duration(pause.seconds_left(now_ms))
            why = f": {pause.reason}" if pause.reason else ""
            return Brake(Code.PAUSED, f"paused for {left} more by {pause.by}{why}")
        counted = accidents(facts, missing, holds)
        if is_mass_loss(facts, counted) and not switch.allows(counted):
            members = sum(each.registered is not None for each in facts) + len(counted)
            return Brake(
                Code.MASS_LOSS,
                f"{len(counted)} of {members} bookies are missing at once: "
                f"{', '.join(sorted(counted))}",
            )
        return None


def accidents(facts: Sequence[BookieFacts], missing: Missing, holds: Holds) -> frozenset[BookieId]:
    """Return the missing bookies that hold something, and that no operator took away. A lost bookie
    with nothing left to heal is over and done with.
    """
    names = (missing.lost | missing.silent) - missing.gone - missing.wished
    return frozenset(each.bookie for each in facts if each.bookie in names and holds(each.bookie))


def is_mass_loss(facts: Sequence[BookieFacts], counted: frozenset[BookieId]) -> bool:
    """Whether more than a quarter of the bookies, or several hosts, are missing at once."""
    members = sum(each.registered is not None for each in facts) + len(counted)
    places = {_place(each) for each in facts if each.bookie in counted}
    return len(counted) > max(1, MISSING_SHARE_MAX * members) or len(places) > 1


def _place(facts: BookieFacts) -> tuple[str, ...]:
    path = tuple(facts.labels.path)
    return path if any(path) else (facts.bookie,)
