"""Options of the form `NAME=VALUE` whose names are the fields of a dataclass."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from quire.errors import ConfigurationError
from quire.units import parse_bytes, parse_seconds

if TYPE_CHECKING:
    PairType: TypeAlias = click.ParamType[tuple[str, float]]
else:
    PairType = click.ParamType  # generic since click 8.2

T = TypeVar("T")


class Pairs(PairType):
    """A field of a dataclass and its value: `write-cache-bytes=64MiB`, `scrub-seconds=7d`.

    A field that ends in `_bytes` or `_per_second` takes sizes, one in `_seconds` durations, others
    take numbers.
    """

    name = "NAME=VALUE"

    def __init__(self, load: Callable[[], type[Any]]) -> None:
        self._load = load

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        """Return the field's name and its value."""
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        known = {each.name: each for each in fields(self._load())}
        found = known.get(name.strip().replace("-", "_"))
        if not equals or found is None:
            near = difflib.get_close_matches(name.replace("-", "_"), known, n=1)
            advice = f"did you mean {near[0]!r}?" if near else f"names: {', '.join(known)}"
            self.fail(f"{value!r} is not NAME=VALUE with a known name; {advice}", param, ctx)
        try:
            return found.name, _number(found.name, text.strip(), whole=found.type == "int")
        except (ConfigurationError, ValueError) as error:
            self.fail(f"{value!r}: {error}", param, ctx)


def _number(name: str, text: str, *, whole: bool) -> float:
    if "bytes" in name:
        return parse_bytes(text)
    if "_seconds" in name:
        return parse_seconds(text)
    return int(text) if whole else float(text)


def build(kind: type[T], pairs: Iterable[tuple[str, float]]) -> T:
    """Return the dataclass with these fields; others keep their defaults.

    Raises:
        ConfigurationError: the values cannot work together.
    """
    return kind(**dict(pairs))
