"""A drill: what makes some alerts fire. Its first line says which state it brings about."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from tests.alerts.monitor import Monitor

Play: TypeAlias = Callable[[Monitor], Awaitable[None]]


@dataclass(frozen=True)
class AlertDrill:
    """A drill and the alerts that it is about. `is_real`: it starts processes."""

    name: str
    alerts: tuple[str, ...]
    play: Play
    is_real: bool = False

    @property
    def state(self) -> str:
        """What it brings about, in one line."""
        assert self.play.__doc__ is not None
        return self.play.__doc__.splitlines()[0]


def drill(*alerts: str, is_real: bool = False) -> Callable[[Play], AlertDrill]:
    """Make a function the drill of some alerts, under its own name."""

    def made(play: Play) -> AlertDrill:
        return AlertDrill(play.__name__.replace("_", "-"), alerts, play, is_real)

    return made
