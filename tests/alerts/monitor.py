"""What Prometheus is to a drill: it scrapes programs, keeps their values, and evaluates all rules.

A drill lets time pass by `watch` and `until`. On a virtual loop that is the programs' time: they
work, count and age meanwhile. A drill on real processes has a `HeldTime`: a state of the processes
is scraped again and again, and only the monitor's clock moves. What must last for four hours lasts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from prometheus_client.core import Metric

from tests.alerts.rules import SCRAPE_SECONDS, AlertState, fired, rules
from tests.alerts.series import Labels, Series, labels_of

Look: TypeAlias = Callable[[], Awaitable[Iterable[Metric] | None]]
"""Asks a program for its figures; None when it does not answer."""


class DrillError(Exception):
    """An alert did not fire as its drill has it."""


class Time(Protocol):
    """The clock of a monitor."""

    def now(self) -> float:
        """Return the time, in seconds since 1970."""
        ...

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        ...


class VirtualTime:
    """The time of a virtual loop, which begins now."""

    def __init__(self) -> None:
        self._loop: Final = asyncio.get_running_loop()
        self._start: Final = float(round(time.time()))

    def now(self) -> float:
        """See `Time.now`."""
        return self._start + self._loop.time()

    async def wait(self, seconds: float) -> None:
        """See `Time.wait`."""
        await asyncio.sleep(seconds)


class HeldTime:
    """A time that moves for the monitor only."""

    def __init__(self) -> None:
        self._now = float(round(time.time()))

    def now(self) -> float:
        """See `Time.now`."""
        return self._now

    async def wait(self, seconds: float) -> None:
        """See `Time.wait`."""
        self._now += seconds


@dataclass
class Target:
    """A program that is scraped."""

    labels: Mapping[str, str]
    look: Look
    shown: set[tuple[str, Labels]] = field(default_factory=set)
    """The series of the last scrape."""


class Monitor:
    """See the module."""

    def __init__(self, clock: Time, alerts: Iterable[str]) -> None:
        """`alerts` are the ones that the drill is about."""
        known = rules()
        self._clock: Final = clock
        self._targets: list[Target] = []
        self.series: Final = Series()
        self.states: Final = [AlertState(known[each]) for each in alerts]
        self.began: Final = clock.now()
        self.scrapes = 0
        self.fired: dict[str, float] = {}
        """When each alert fired first, in seconds since the monitor began."""

    def add(self, job: str, instance: str, look: Look) -> None:
        """Scrape a program from now on."""
        self._targets.append(Target({"job": job, "instance": instance}, look))

    @property
    def firing(self) -> list[str]:
        """The alerts that fire now."""
        return fired(self.states)

    async def scrape(self) -> None:
        """Scrape every program once, and evaluate the rules."""
        now = self._clock.now()
        for target in self._targets:
            await self._scrape(target, now)
        for state in self.states:
            state.look(self.series, now)
        for alert in self.firing:
            self.fired.setdefault(alert, now - self.began)
        self.scrapes += 1

    async def _scrape(self, target: Target, now: float) -> None:
        found = await target.look()
        up = labels_of(target.labels)
        self.series.add(now, "up", up, float(found is not None))
        shown: dict[tuple[str, Labels], float] = {}
        for family in found or ():
            for sample in family.samples:
                labels = labels_of({**sample.labels, **target.labels})
                shown[sample.name, labels] = sample.value
        for (name, labels), value in shown.items():
            self.series.add(now, name, labels, value)
        for name, labels in sorted(target.shown - shown.keys()):
            self.series.add(now, name, labels, None)
        target.shown = set(shown)

    async def watch(self, seconds: float) -> None:
        """Scrape for so long."""
        end = self._clock.now() + seconds
        while self._clock.now() < end:
            await self.scrape()
            await self._clock.wait(SCRAPE_SECONDS)

    async def calm(self, seconds: float = 300.0) -> None:
        """Scrape for some minutes in which no alert may fire: nothing is wrong yet."""
        await self.watch(seconds)
        if self.fired:
            raise DrillError(f"{', '.join(self.fired)} fires before its cause")

    async def until_all_fired(self, work: Callable[[], Awaitable[object]] | None = None) -> None:
        """Scrape until every alert has fired once. `work` is done before each scrape.

        Raises `DrillError` when that takes two hours longer than the longest rule asks for.
        """
        end = self._clock.now() + max(each.rule.seconds for each in self.states) + 2 * 3600.0
        while missing := [
            each.rule.alert for each in self.states if each.rule.alert not in self.fired
        ]:
            if self._clock.now() > end:
                raise DrillError(f"{', '.join(missing)} did not fire")
            if work is not None:
                await work()
            await self.scrape()
            await self._clock.wait(SCRAPE_SECONDS)
