"""Which faults a seed meets, and the injector that brings them.

Swarm testing: every seed draws its own mix, so that some runs have only one kind of fault, some
many, some none; uniform mixing would hide what only shows when something else does *not* happen. A
fault has a rate (per virtual second) and mends itself after a random time. Faults come more readily
while appends are in flight.

A seed may have a *theme*: kinds that come thick and fast together, because what is rare alone is
where protocols break. `churn` takes bookies away so that ensembles change, `race` brings recoverers
and bad lines at the worst moment, `damage` hurts disks.

The budget: bookies lose what was not synced and nothing else, but for one of them (damage.py). So
every acknowledged entry must survive whatever is drawn here, however many bookies are hit at once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol

from quire.testing.sim.policy import Policy
from tests.sim.damage import DAMAGE, LATE
from tests.sim.network import Conditions
from tests.sim.store import StoreWeather

KINDS: Final = (
    "crash",
    "power cut",
    "pause",
    "cut",
    "isolate",
    "slow disk",
    "hung disk",
    "sync error",
    "expire session",
    "kill client",
    "pause client",
    "break streams",
    "swizzle",
    *(kind for kind in DAMAGE if kind not in LATE),
)
"""Drawn one by one for every seed; a kind that came later is drawn behind all else (`draw_mix`)."""

STOP: Final = "stop in order"
"""What an operator does to a bookie: drawn behind all else, as it came late."""

STOP_CLIENT: Final = "stop client in order"
"""What a signal does to a client: drawn behind all else, as it came later still."""

SECOND_PROCESS: Final = "second process"
"""Another process for a bookie's disk (second_process.py): drawn last of all."""

WISH: Final = "wish"
"""An operator sets a bookie away, or drains it (wishes.py): drawn after all others."""

TO_CLIENTS: Final = ("kill client", "pause client", STOP_CLIENT)

RATES_MAX: Final = {
    STOP: 2.0,
    STOP_CLIENT: 2.0,
    SECOND_PROCESS: 1.0,
    WISH: 3.0,
    "kill client": 1.0,
    "isolate": 2.0,
    "pause client": 2.0,
    "bit rot": 3.0,
    "disk lost": 1.0,
    "cut short": 1.0,
    "grown": 1.0,
    "files lost": 1.0,
}
"""Faults per virtual second at most: more of these and nothing else ever happens."""


class Theme(StrEnum):
    """What a seed is about."""

    NONE = "none"
    CHURN = "churn"
    RACE = "race"
    DAMAGE = "damage"


THEMES: Final[dict[Theme, tuple[str, ...]]] = {
    Theme.NONE: (),
    Theme.CHURN: ("crash", "power cut", "cut", "break streams", "swizzle"),
    Theme.RACE: ("cut", "swizzle", "pause client"),
    Theme.DAMAGE: DAMAGE,
}
"""The kinds a theme brings."""

THEME_WEIGHTS: Final = (5, 2, 3, 1)

BLOWS: Final[dict[str, float]] = {
    "kill client": 0.5,
    "pause client": 1.0,
    "power cut": 1.0,
    "crash": 2.0,
    "break streams": 0.5,
    "rival": 2.0,
    "clog": 2.0,
}
"""What an ambush (ambush.py) may do, and how often."""


@dataclass
class FaultMix:
    """What one seed is made of."""

    theme: Theme = Theme.NONE

    policy: Policy = Policy.INTERLEAVE
    conditions: Conditions = field(default_factory=Conditions)
    weather: StoreWeather = field(default_factory=StoreWeather)
    disk_latency: float = 0.0003
    rates: dict[str, float] = field(default_factory=dict)
    """Faults per virtual second, by kind."""
    mending: float = 0.5
    """Mean seconds until a fault mends."""
    blows: dict[str, float] = field(default_factory=lambda: dict(BLOWS))
    """What an ambush may do, and how often."""
    zones: float = 0.25
    """How often acks of a ledger count zones, where its shape allows."""
    relabels: float = 0.4
    """How often these bookies are in another zone whenever they are started again."""
    deferred_sync: float = 0.15
    """How many ledgers have deferred sync."""

    def describe(self) -> dict[str, Any]:
        calm_conditions, calm_weather = asdict(Conditions()), asdict(StoreWeather())
        return {
            "theme": str(self.theme),
            "policy": str(self.policy),
            "conditions": _differences(asdict(self.conditions), calm_conditions),
            "store": _differences(asdict(self.weather), calm_weather),
            "disk_latency": round(self.disk_latency, 5),
            "rates": {kind: round(rate, 3) for kind, rate in self.rates.items()},
            "mending": round(self.mending, 3),
        }


def _differences(values: dict[str, float], calm: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 5) for name, value in values.items() if value != calm[name]}


def draw_mix(rng: random.Random) -> FaultMix:
    """Draw one seed's mix; one in ten has no faults at all."""

    def maybe(chance: float, low: float, high: float) -> float:
        drawn = low + (high - low) * rng.random() ** 2
        return drawn if rng.random() < chance else 0.0

    policy = rng.choices(list(Policy), [6, 2, 2])[0]
    mix = FaultMix(policy=policy, disk_latency=0.0001 + 0.004 * rng.random() ** 3)
    mix.conditions.delay_mean = 0.0002 + 0.01 * rng.random() ** 4
    if rng.random() < 0.1:
        return mix
    mix.conditions.slow = maybe(0.4, 0.005, 0.2)
    mix.conditions.slow_mean = 0.01 + 0.4 * rng.random()
    mix.conditions.loss = maybe(0.4, 0.001, 0.08)
    mix.conditions.duplication = maybe(0.3, 0.01, 0.2)
    mix.conditions.cancellation = maybe(0.5, 0.1, 1.0)
    mix.weather.unavailable = maybe(0.3, 0.01, 0.2)
    mix.weather.unknown = maybe(0.4, 0.01, 0.3)
    mix.weather.spurious_wake = maybe(0.3, 0.05, 0.5)
    mix.weather.watch_lost = maybe(0.3, 0.05, 0.5)
    mix.rates = {
        kind: rate for kind in KINDS if (rate := maybe(0.25, 0.2, RATES_MAX.get(kind, 5.0)))
    }
    mix.mending = 0.05 + 2.0 * rng.random() ** 2
    mix.weather.watch_late = maybe(0.3, 0.05, 0.7)
    _apply_theme(mix, rng)
    if mix.theme is Theme.NONE:
        for kind in LATE:
            if rate := maybe(0.1, 0.2, RATES_MAX[kind]):
                mix.rates[kind] = rate
        if rate := maybe(0.15, 0.2, RATES_MAX[STOP]):
            mix.rates[STOP] = rate
    if mix.theme is not Theme.DAMAGE and (rate := maybe(0.2, 0.2, RATES_MAX[STOP_CLIENT])):
        mix.rates[STOP_CLIENT] = rate
        mix.blows[STOP_CLIENT] = 2.0
    if rate := maybe(0.2, 0.2, RATES_MAX[SECOND_PROCESS]):
        mix.rates[SECOND_PROCESS] = rate
    if rate := maybe(0.3, 0.2, RATES_MAX[WISH]):
        mix.rates[WISH] = rate
    mix.conditions.stepwise = maybe(0.3, 0.1, 1.0)
    return mix


def _apply_theme(mix: FaultMix, rng: random.Random) -> None:
    """Draw a theme; a seed with one has its kinds and few others."""
    mix.theme = rng.choices(list(Theme), THEME_WEIGHTS)[0]
    kinds = THEMES[mix.theme]
    if not kinds:
        return
    others = {kind: rate for kind, rate in mix.rates.items() if rng.random() < 0.3}
    chosen = {kind: 0.5 + 3.0 * rng.random() for kind in kinds if rng.random() < 0.6}
    mix.rates = {
        kind: rate for kind in (*KINDS, *LATE) if (rate := chosen.get(kind, others.get(kind, 0.0)))
    }
    if mix.theme is Theme.RACE:
        mix.weather.watch_late = max(mix.weather.watch_late, 0.6 * rng.random())
        mix.mending = 0.02 + 0.3 * rng.random()


class Cluster(Protocol):
    """What the injector can reach."""

    def do(self, kind: str, rng: random.Random) -> Callable[[], None] | None:
        """Bring one fault; return what mends it, None when it found no victim."""
        ...

    @property
    def is_busy(self) -> bool:
        """Whether appends are in flight."""
        ...

    def note_fault(self, kind: str) -> None: ...


class Injector:
    """Brings the mix's faults until it is stopped; then everything is mended."""

    def __init__(self, mix: FaultMix, cluster: Cluster, rng: random.Random) -> None:
        self._mix = mix
        self._cluster = cluster
        self._rng = rng
        self._mends: list[Callable[[], None]] = []

    async def run(self) -> None:
        """Bring faults for ever."""
        kinds = sorted(self._mix.rates)
        if not kinds:
            return
        rates = [self._mix.rates[kind] for kind in kinds]
        while True:
            haste = 2.0 if self._cluster.is_busy else 1.0
            await asyncio.sleep(self._rng.expovariate(sum(rates) * haste))
            kind = self._rng.choices(kinds, rates)[0]
            mend = self._cluster.do(kind, self._rng)
            if mend is not None:
                self._cluster.note_fault(kind)
                self._mends.append(mend)
                delay = self._rng.expovariate(1 / self._mix.mending)
                asyncio.get_running_loop().call_later(delay, self._mend, mend)

    def _mend(self, mend: Callable[[], None]) -> None:
        if mend in self._mends:
            self._mends.remove(mend)
            mend()

    def mend_all(self) -> None:
        """End every fault that is on."""
        while self._mends:
            self._mends.pop()()
