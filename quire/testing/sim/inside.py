"""While a simulated run lasts, Python's time and chance are the run's.

Programs ask `time.time()`, `time.monotonic()`, `random`, `uuid.uuid4()` and `os.urandom`. Answers
from outside would make two runs of a seed differ. So these answer from the seed and from virtual
time. A module that has copied such a name (`from time import time`) still gets the real one.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

CLOCK_START: Final = 1_700_000_000.0
"""The wall clock when a run begins: Unix seconds."""


@contextmanager
def chance_and_time(seed: str, now: Callable[[], float]) -> Iterator[None]:
    """Let Python's time and chance be a run's in the block. `now` returns its virtual seconds."""
    seeds, state = random.Random(f"{seed}:chance"), random.getstate()

    class SeededRandom(random.Random):
        def __init__(self, given: Any = None) -> None:
            super().__init__(seeds.getrandbits(64) if given is None else given)

    def wall() -> float:
        return CLOCK_START + now()

    random.seed(f"{seed}:global")
    try:
        with (
            patch.object(time, "time", wall),
            patch.object(time, "time_ns", lambda: int(wall() * 1e9)),
            patch.object(time, "monotonic", now),
            patch.object(time, "monotonic_ns", lambda: int(now() * 1e9)),
            patch.object(random, "Random", SeededRandom),
            patch.object(os, "urandom", seeds.randbytes),
        ):
            yield
    finally:
        random.setstate(state)
