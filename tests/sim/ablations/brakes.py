"""Safeguards of auditors before they ask, and what replaces them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from quire.entry import BookieId
from quire.healing.brakes import Brake, Brakes, Holds, Missing, Silence
from quire.healing.state import BookieFacts
from tests.sim.ablations.patch import Patch
from tests.sim.faults import FaultMix


def full_disks(mix: FaultMix) -> None:
    """Disks that are full for seconds, and little else."""
    mix.rates = {"disk full": 3.0}
    mix.mending = 2.0


def slow_stores(mix: FaultMix) -> None:
    """Requests that take as long as a bookie may be missing, and bookies that go away."""
    mix.rates = {"crash": 1.0, "expire session": 1.0}
    mix.conditions.slow, mix.conditions.slow_mean = 0.3, 0.3
    mix.mending = 1.5


def go_on_without_brakes() -> list[Patch]:
    def brake(self: Brakes, *_: Any) -> Brake | None:
        return None

    return [(Brakes, "brake", brake)]


def begin_at_once() -> list[Patch]:
    """A bookie that is missing is lost."""

    def lost(self: Silence, until: float, missing: set[BookieId]) -> set[BookieId]:
        return missing

    return [(Silence, "_lost", lost)]


def heed_no_away() -> list[Patch]:
    def away(self: Silence, each: BookieFacts, now_ms: int, now: float) -> bool:
        return False

    return [(Silence, "_away", away)]


def never_begin_anew() -> list[Patch]:
    """A bookie that was back is missing since it was missing first."""

    def count(
        self: Silence, missing: set[BookieId], now: float, keep: Iterable[BookieId] = ()
    ) -> None:
        for each in missing:
            self._since.setdefault(each, now)

    return [(Silence, "_count", count)]


def take_read_only_for_lost() -> list[Patch]:
    look = Silence.look

    def strict(
        self: Silence,
        facts: Iterable[BookieFacts],
        now_ms: int,
        began: float,
        now: float,
        holds: Holds,
    ) -> Missing:
        taken = [
            replace(each, registered=None)
            if each.registered is not None and not each.registered.writable
            else each
            for each in facts
        ]
        return look(self, taken, now_ms, began, now, holds)

    return [(Silence, "look", strict)]


def count_from_the_beginning_of_a_look() -> list[Patch]:
    look = Silence.look

    def hasty(
        self: Silence,
        facts: Iterable[BookieFacts],
        now_ms: int,
        began: float,
        now: float,
        holds: Holds,
    ) -> Missing:
        return look(self, facts, now_ms, began, began, holds)

    return [(Silence, "look", hasty)]
