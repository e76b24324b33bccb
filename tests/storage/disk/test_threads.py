"""Jobs of a disk's threads: who does them, when, and what becomes of them."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from quire.storage.disk.threads import DiskThreads


def over(check: Callable[[DiskThreads], Coroutine[Any, Any, None]], count: int = 3) -> None:
    async def main() -> None:
        threads = DiskThreads("test", count)
        try:
            await check(threads)
        finally:
            await threads.close()
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("test-")]

    asyncio.run(main())


class Gate:
    """A job that says by which thread it is done, and ends when it may."""

    def __init__(self) -> None:
        self.is_begun = threading.Event()
        self.may_end = threading.Event()

    def __call__(self) -> str:
        self.is_begun.set()
        assert self.may_end.wait(30)
        return threading.current_thread().name


def test_threads_are_started_when_they_are_needed() -> None:
    async def check(threads: DiskThreads) -> None:
        names = {await threads.run(lambda: threading.current_thread().name) for _ in range(20)}
        assert names == {"test-0"}

    over(check)


def test_the_thread_that_was_idle_last_gets_the_next_job() -> None:
    async def check(threads: DiskThreads) -> None:
        gates = [Gate() for _ in range(3)]
        jobs = [threads.run(gate) for gate in gates]
        for at in (0, 2, 1):
            gates[at].may_end.set()
            last = await jobs[at]
        again = [await threads.run(lambda: threading.current_thread().name) for _ in range(9)]
        assert set(again) == {last}

    over(check)


def test_jobs_that_find_no_thread_wait_in_order() -> None:
    async def check(threads: DiskThreads) -> None:
        gate, done = Gate(), []
        first = threads.run(gate)
        rest = [threads.run(lambda at=at: done.append(at)) for at in range(50)]  # type: ignore[misc]
        assert gate.is_begun.wait(30)
        assert not done
        gate.may_end.set()
        await asyncio.gather(first, *rest)
        assert done == list(range(50))

    over(check, 1)


def test_closing_waits_for_all_jobs_and_then_refuses() -> None:
    async def main() -> None:
        threads = DiskThreads("test", 2)
        gates = [Gate() for _ in range(5)]
        jobs = [threads.run(gate) for gate in gates]
        closing = asyncio.ensure_future(threads.close())
        for _ in range(3):
            await asyncio.sleep(0)
        assert not closing.done()
        with pytest.raises(OSError, match="closed") as caught:
            threads.run(lambda: None)
        assert caught.value.errno == errno.EBADF
        for gate in gates:
            gate.may_end.set()
        await closing
        assert {await job for job in jobs} == {"test-0", "test-1"}

    asyncio.run(main())


def test_errors_of_a_job_are_its_own() -> None:
    async def check(threads: DiskThreads) -> None:
        def fail() -> None:
            raise ValueError("mine")

        with pytest.raises(ValueError, match="mine"):
            await threads.run(fail)
        assert await threads.run(lambda: 1) == 1

    over(check, 1)


def test_a_wait_that_is_cancelled_leaves_the_job_and_its_thread_alone() -> None:
    async def check(threads: DiskThreads) -> None:
        gate = Gate()
        job = threads.run(gate)
        assert gate.is_begun.wait(30)
        job.cancel()
        gate.may_end.set()
        assert await threads.run(lambda: threading.current_thread().name) == "test-0"

    over(check, 1)


def test_a_loop_that_is_gone_does_not_stop_a_thread() -> None:
    threads = DiskThreads("test", 1)
    gate = Gate()

    async def begin() -> None:
        threads.run(gate)
        assert gate.is_begun.wait(30)

    async def go_on() -> None:
        gate.may_end.set()
        assert await threads.run(lambda: 2) == 2
        await threads.close()

    asyncio.run(begin())
    asyncio.run(go_on())
