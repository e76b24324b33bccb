"""Retries in virtual time: what is tried again, after which pauses, and what ends it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from quire.aio import retry as module
from quire.aio.backoff import Backoff
from quire.aio.retry import BACKOFF, retry, retry_blocking
from quire.errors import (
    BookieBusyError,
    ConflictError,
    NoSuchLogError,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
)
from tests.support.virtual import virtually

FLAT = Backoff(first=1.0, last=1.0)
AWAY = StoreUnavailableError("x", "y")


class Work:
    """Fails with the given errors, one after the other, and then succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.times: list[float] = []

    async def __call__(self) -> str:
        self.times.append(asyncio.get_running_loop().time())
        return self.step()

    def step(self) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "done"

    @property
    def pauses(self) -> list[float]:
        return [after - before for before, after in zip(self.times, self.times[1:], strict=False)]


@pytest.mark.parametrize(
    "error", [AWAY, StoreOutcomeUnknownError("/a", "lost"), ConflictError("another was first")]
)
def test_work_is_repeated_after_transient_errors(error: Exception) -> None:
    async def main() -> None:
        work = Work(error, error, error)
        assert await retry(work) == "done"
        assert work.pauses == pytest.approx([0.02, 0.04, 0.08])

    virtually(main)


def test_pauses_are_jittered_by_the_random_numbers_given() -> None:
    async def main() -> None:
        drawn = set()
        for seed in range(5):
            work = Work(AWAY)
            await retry(work, random.Random(seed))
            drawn.update(work.pauses)
        assert len(drawn) == 5
        assert all(BACKOFF.first / 2 <= each <= BACKOFF.first * 1.001 for each in drawn)

    virtually(main)


def test_a_permanent_error_is_raised_at_once() -> None:
    async def main() -> None:
        work = Work(NoSuchLogError("a"))
        with pytest.raises(NoSuchLogError):
            await retry(work)
        assert len(work.times) == 1

    virtually(main)


def test_only_the_errors_named_are_retried() -> None:
    async def main() -> None:
        work = Work(BookieBusyError("b", "full"), AWAY)
        with pytest.raises(StoreUnavailableError):
            await retry(work, on=BookieBusyError, backoff=FLAT)
        assert len(work.times) == 2

    virtually(main)


def test_a_transient_error_may_be_final_by_then() -> None:
    async def main() -> None:
        work = Work(AWAY, AWAY, AWAY)
        with pytest.raises(StoreUnavailableError):
            await retry(work, unless=lambda error: len(work.times) == 2, backoff=FLAT)
        assert len(work.times) == 2

    virtually(main)


def test_attempts_are_bounded() -> None:
    async def main() -> None:
        work = Work(AWAY, AWAY, AWAY)
        with pytest.raises(StoreUnavailableError):
            await retry(work, attempts=3, backoff=FLAT)
        assert work.pauses == [1.0, 1.0], "there is no pause after the last attempt"

    virtually(main)


def test_the_time_limit_is_looked_at_after_an_attempt_and_cuts_none_short() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()

        async def slow() -> None:
            await asyncio.sleep(4.0)
            raise AWAY

        with pytest.raises(StoreUnavailableError):
            await retry(slow, timeout=6.0, backoff=FLAT)
        assert loop.time() - begun == 9.0

    virtually(main)


def test_cancelling_ends_the_pause() -> None:
    async def main() -> None:
        work = Work(*[AWAY] * 100)
        trying = asyncio.create_task(retry(work, backoff=FLAT))
        await asyncio.sleep(2.5)
        trying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await trying
        assert len(work.times) == 3

    virtually(main)


class Clock:
    """The time of a thread, which passes only while it sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.mark.parametrize(
    ("failures", "unless", "slept", "ok"),
    [
        (2, lambda _: False, [1.0, 1.0], True),
        (9, lambda _: False, [1.0, 1.0, 1.0], False),
        (2, lambda _: True, [], False),
    ],
    ids=["success", "time", "refused"],
)
def test_a_thread_retries_in_the_same_way(
    failures: int,
    unless: Callable[[Exception], bool],
    slept: list[float],
    ok: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    work = Work(*[AWAY] * failures)
    if ok:
        assert retry_blocking(work.step, unless=unless, backoff=FLAT, timeout=3.0) == "done"
    else:
        with pytest.raises(StoreUnavailableError):
            retry_blocking(work.step, unless=unless, backoff=FLAT, timeout=3.0)
    assert clock.slept == slept
