"""Deadlines: the alarm never rings later than the first of them, however little is computed."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import Any

import pytest

from quire.ledger.deadlines import Deadlines
from quire.ledger.options import LedgerOptions
from tests.support.virtual import virtually


class _Runs:
    """Runs under way at three bookies, each with the time when it was sent."""

    def __init__(self, options: LedgerOptions) -> None:
        self._options = options
        self.under_way = [deque[float]() for _ in range(3)]
        self.looks = 0

    def deadline(self, is_crowded: bool) -> float | None:
        self.looks += 1
        return self.due(is_crowded)

    def due(self, is_crowded: bool) -> float | None:
        patience = self._options.stall_timeout if is_crowded else self._options.request_timeout
        return min((each[0] + patience for each in self.under_way if each), default=None)


class _Appends:
    """Appends with the times of their calls; they may wait for space."""

    def __init__(self) -> None:
        self.called = deque[float]()
        self.is_waiting = False

    @property
    def oldest(self) -> float | None:
        return self.called[0] if self.called else None


@pytest.mark.parametrize("seed", range(20))
def test_the_alarm_rings_no_later_than_the_first_deadline(seed: int) -> None:
    rng = random.Random(seed)
    options = LedgerOptions(
        request_timeout=rng.choice([2.0, 5.0]), append_timeout=rng.choice([1.0, 30.0])
    )
    runs, appends = _Runs(options), _Appends()
    looks = 0

    async def main() -> None:
        nonlocal looks
        now = asyncio.get_running_loop().time
        rung: list[float] = []

        def ring() -> None:
            rung.append(now())
            for each in runs.under_way:
                while each and each[0] + options.stall_timeout <= now():
                    each.popleft()
            while appends.called and appends.called[0] + options.append_timeout <= now():
                appends.called.popleft()
            deadlines.watch()

        deadlines = Deadlines(_as_any(runs), _as_any(appends), options, ring)
        for _ in range(300):
            await asyncio.sleep(rng.choice([0.0, 0.01, 0.3]))
            appends.is_waiting = rng.random() < 0.1
            appends.called.append(now())
            for each in runs.under_way:
                if rng.random() < 0.9:
                    each.append(now())
            deadlines.watch()
            looks += 1
            dues = [runs.due(appends.is_waiting)]
            dues.append(None if appends.oldest is None else appends.oldest + options.append_timeout)
            first = min(due for due in dues if due is not None)
            assert deadlines._alarm.is_set(first)
            if rng.random() < 0.8:
                appends.called.clear()
            for each in runs.under_way:
                if rng.random() < 0.8:
                    each.clear()
        deadlines.cancel()
        count = len(rung)
        await asyncio.sleep(100)
        assert len(rung) == count, "it was cancelled"

    virtually(main)
    assert runs.looks < looks, "most appends come while the alarm is set"


def _as_any(value: Any) -> Any:
    return value
