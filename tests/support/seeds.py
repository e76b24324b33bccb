"""Seeds of a test: the first few run in the quick tests, all of them in `make test`.

And values of a test, of which `make test` has the first few, and `make campaigns` the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pytest

QUICK: Final = 2


def seeds(count: int, quick: int = QUICK, *, first: int = 0, usual: int | None = None) -> list[Any]:
    """Return parameters for `pytest.mark.parametrize`: `count` seeds, only `quick` not slow, and
    those behind the `usual` ones for campaigns.
    """
    rest = first + (count if usual is None else usual)

    def parameter(seed: int) -> Any:
        if seed < first + quick:
            return seed
        return pytest.param(seed, marks=pytest.mark.slow if seed < rest else pytest.mark.campaign)

    return [parameter(seed) for seed in range(first, first + count)]


def first_of(count: int, values: Iterable[Any]) -> list[Any]:
    """Return parameters for `pytest.mark.parametrize`, all but the first few for campaigns."""
    return [
        value if number < count else pytest.param(value, marks=pytest.mark.campaign)
        for number, value in enumerate(values)
    ]


TURNS: Final = 4
"""A test of every step of some work takes every fourth step. The other turns are for campaigns."""

in_turns: Final = pytest.mark.parametrize("turn", first_of(1, range(1, TURNS + 1)))
