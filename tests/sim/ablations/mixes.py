"""Mixes of faults turned towards what a safeguard is for: the last argument of an ablation."""

from __future__ import annotations

from tests.sim.faults import SECOND_PROCESS, STOP_CLIENT, WISH, FaultMix, Theme


def zoned(mix: FaultMix) -> None:
    """Acks that count zones, and bookies that go away and come back in others."""
    mix.zones = 1.0
    mix.rates = {"crash": 4.0, "break streams": 2.0, "swizzle": 2.0}
    mix.mending = 0.05


def relabelled(mix: FaultMix) -> None:
    """The same, each time in another, and answers that are slow."""
    zoned(mix)
    mix.relabels = 1.0
    mix.rates = {"crash": 3.0}
    mix.conditions.slow, mix.conditions.slow_mean = 0.3, 0.1


def race(mix: FaultMix) -> None:
    """Recoverers and bad lines, much of both."""
    mix.theme = Theme.RACE
    mix.rates = {"swizzle": 4.0, "cut": 1.0}
    mix.weather.watch_late = 0.7
    mix.weather.watch_lost = 0.0
    mix.mending = 0.05
    mix.conditions.slow, mix.conditions.slow_mean = 0.1, 0.05


def silence(mix: FaultMix) -> None:
    """Requests that are lost or slow, clogged lines, writers that hear late: no process crashes."""
    mix.theme = Theme.RACE
    mix.rates = {"swizzle": 2.0}
    mix.weather.watch_late, mix.weather.watch_lost = 0.9, 0.0
    mix.weather.unavailable = mix.weather.unknown = 0.0
    mix.conditions.slow, mix.conditions.slow_mean = 0.25, 0.06
    mix.conditions.loss, mix.conditions.cancellation = 0.08, 1.0
    mix.mending = 0.05
    mix.blows = {"clog": 3.0, "rival": 1.0}


def stepwise(mix: FaultMix) -> None:
    """Bookies that look entries up one by one, and writers that are recovered again and again."""
    race(mix)
    mix.conditions.stepwise = 1.0


def churn(mix: FaultMix) -> None:
    """Bookies that go away all the time, and writers that hear late of everything."""
    mix.theme = Theme.RACE
    mix.rates = {"crash": 4.0, "break streams": 3.0, "swizzle": 2.0}
    mix.weather.watch_late = 0.8
    mix.mending = 0.05


def rot(mix: FaultMix) -> None:
    """Damaged disks whose bookies restart."""
    mix.theme = Theme.DAMAGE
    mix.rates = {"bit rot": 8.0, "read error": 2.0, "crash": 2.0}
    mix.mending = 0.1


def cut_short(mix: FaultMix) -> None:
    """Files that are shorter when their bookie is back."""
    mix.theme = Theme.DAMAGE
    mix.rates = {"cut short": 4.0}
    mix.mending = 0.05


def loss(mix: FaultMix) -> None:
    """A bookie that loses files again and again while roles change hands, and is repaired."""
    mix.theme = Theme.RACE
    mix.rates = {"files lost": 4.0, "swizzle": 1.0}
    mix.weather.watch_late, mix.weather.watch_lost = 0.8, 0.0
    mix.mending = 0.05


def power(mix: FaultMix) -> None:
    """Power cuts, and little else."""
    mix.rates = {"power cut": 5.0}
    mix.mending = 0.1


def forced(mix: FaultMix) -> None:
    """Bookies that forget between an answer and the force that is to make it durable."""
    mix.rates = {"power cut": 0.5}
    mix.disk_latency = 0.0002
    mix.deferred_sync = 1.0


def starved(mix: FaultMix) -> None:
    """Bookies that are away longer than writers wait."""
    mix.rates = {"crash": 4.0, "hung disk": 3.0}
    mix.mending = 3.0


def old_rot(mix: FaultMix) -> None:
    """Journals that rot, and are replayed."""
    mix.theme = Theme.DAMAGE
    mix.rates = {"bit rot": 12.0, "crash": 5.0}
    mix.mending = 0.05


def expiry(mix: FaultMix) -> None:
    """A metadata store that keeps clients in doubt."""
    mix.weather.unknown = 0.3


def away(mix: FaultMix) -> None:
    """Candidates that are paused past their sessions, or cut off from the store."""
    mix.rates = {"pause client": 6.0, "expire session": 2.0, "isolate": 1.0}
    mix.mending = 0.8


def slow(mix: FaultMix) -> None:
    """Messages that take so long that a log rolls meanwhile."""
    mix.conditions.slow, mix.conditions.slow_mean = 0.2, 0.2


def full(mix: FaultMix) -> None:
    """Disks that fill up while roles change hands, and lose power."""
    mix.theme = Theme.RACE
    mix.rates = {"disk full": 4.0, "power cut": 2.0, "swizzle": 1.0}
    mix.weather.watch_late, mix.weather.watch_lost = 0.8, 0.0
    mix.mending = 0.1


def failing_syncs(mix: FaultMix) -> None:
    """Syncs that fail, and power cuts that show what they lost."""
    mix.rates = {"sync error": 6.0, "power cut": 3.0}
    mix.mending = 0.2


def signals(mix: FaultMix) -> None:
    """Clients that are told to stop, again and again."""
    mix.rates = {STOP_CLIENT: 4.0}


def crowded(mix: FaultMix) -> None:
    """Second processes on the disks of bookies that run."""
    mix.rates = {SECOND_PROCESS: 3.0, "crash": 0.5}


def wishes(mix: FaultMix) -> None:
    """Bookies that are sent away and drained all the time, and roles that change hands."""
    mix.rates = {**mix.rates, WISH: 6.0, "swizzle": 1.0}
    mix.mending = 0.5
