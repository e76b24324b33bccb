"""Durations as a person types them on the command line: `30`, `10m`, `1h30m`, `7d`."""

from __future__ import annotations

import click

from quire.errors import ConfigurationError
from quire.units import parse_seconds

SECONDS_MAX = 1e9


class Duration(click.ParamType[float]):
    """A duration, in seconds or with a unit. The value is in seconds."""

    name = "duration"

    def __init__(self, least: float = 0.0) -> None:
        self._least = least

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the seconds."""
        if isinstance(value, float):
            return value
        try:
            seconds = parse_seconds(str(value))
        except ConfigurationError as error:
            self.fail(str(error), param, ctx)
        if not self._least <= seconds <= SECONDS_MAX:
            self.fail(
                f"{value!r} is not a duration from {self._least:g} to {SECONDS_MAX:.0e} seconds",
                param,
                ctx,
            )
        return seconds
