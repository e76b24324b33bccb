"""Seeds of a test: the first few run in the quick tests, all of them in `make test`."""

from __future__ import annotations

from typing import Any, Final

import pytest

QUICK: Final = 2


def seeds(count: int, quick: int = QUICK, *, first: int = 0) -> list[Any]:
    """Return parameters for `pytest.mark.parametrize`: `count` seeds, only `quick` not slow."""
    return [
        seed if seed < first + quick else pytest.param(seed, marks=pytest.mark.slow)
        for seed in range(first, first + count)
    ]
