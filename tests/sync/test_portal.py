"""The loop thread behind the blocking API: results, interruption, contexts, iterators, forks."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest

from quire.errors import ForkedError, HandleClosedError, InvalidRequestError, NoSuchLogError
from quire.sync import portal as portal_module
from quire.sync.portal import Portal


@pytest.fixture
def portal() -> Portal:
    return Portal.shared()


async def nothing() -> None:
    return None


async def text(value: str) -> str:
    return value


def test_there_is_one_portal_per_process(portal: Portal) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: Portal.shared(), range(8))) == {portal}


def test_a_call_returns_or_raises_what_the_work_does(portal: Portal) -> None:
    async def fail() -> None:
        raise NoSuchLogError("orders")

    assert portal.call(text("done")) == "done"
    with pytest.raises(NoSuchLogError, match="orders"):
        portal.call(fail())


def test_threads_wait_for_their_own_work_only(portal: Portal) -> None:
    gate = portal.call(_make_event())

    async def wait() -> str:
        await gate.wait()
        return "waited"

    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(lambda: portal.call(wait()))
        assert portal.call(text("quick")) == "quick"
        assert not slow.done()
        portal.post(gate.set)
        assert slow.result(10) == "waited"


async def _make_event() -> asyncio.Event:
    return asyncio.Event()


def test_ctrl_c_cancels_the_work_and_waits_for_its_end(portal: Portal) -> None:
    events: list[str] = []

    async def work() -> None:
        try:
            events.append("started")
            asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            events.append("cleaned up")

    with pytest.raises(KeyboardInterrupt):
        portal.call(work())
    assert events == ["started", "cleaned up"]


def test_work_cancelled_from_elsewhere_is_a_typed_error(portal: Portal) -> None:
    async def cancel_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.Event().wait()

    with pytest.raises(HandleClosedError):
        portal.call(cancel_itself())


def test_a_blocking_call_on_the_loop_itself_is_refused(portal: Portal) -> None:
    async def reenter() -> None:
        portal.call(nothing())

    with pytest.raises(InvalidRequestError, match="asynchronous API"):
        portal.call(reenter())


class Traced:
    """A context manager that notes what happens to it, and in which task."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.tasks: list[asyncio.Task[object] | None] = []

    @asynccontextmanager
    async def manager(self) -> AsyncIterator[str]:
        self.tasks.append(asyncio.current_task())
        try:
            yield "value"
        except BaseException as error:
            self.events.append(type(error).__name__)
            raise
        finally:
            self.tasks.append(asyncio.current_task())
            self.events.append("left")


def test_a_held_context_is_entered_and_left_by_one_task(portal: Portal) -> None:
    traced = Traced()
    with portal.hold(traced.manager()) as value:
        assert value == "value"
        assert traced.events == []
    assert traced.events == ["left"]
    assert traced.tasks[0] is traced.tasks[1] is not None


def test_a_held_context_sees_the_error_of_the_block(portal: Portal) -> None:
    traced = Traced()
    with pytest.raises(NoSuchLogError), portal.hold(traced.manager()):
        raise NoSuchLogError("orders")
    assert traced.events == ["NoSuchLogError", "left"]


def test_ctrl_c_in_a_held_block_looks_like_a_cancellation(portal: Portal) -> None:
    traced = Traced()
    with pytest.raises(KeyboardInterrupt), portal.hold(traced.manager()):
        raise KeyboardInterrupt
    assert traced.events == ["CancelledError", "left"]
    assert portal.call(text("alive")) == "alive"


def test_a_context_that_cannot_be_entered_raises(portal: Portal) -> None:
    traced = Traced()

    @asynccontextmanager
    async def broken() -> AsyncIterator[None]:
        if traced.events == []:
            raise NoSuchLogError("orders")
        yield

    with pytest.raises(NoSuchLogError), portal.hold(broken()):
        pytest.fail("entered")


def test_ctrl_c_while_entering_ends_the_manager(portal: Portal) -> None:
    events: list[str] = []

    @asynccontextmanager
    async def never() -> AsyncIterator[None]:
        try:
            asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
            yield
        finally:
            events.append("gave up")

    with pytest.raises(KeyboardInterrupt), portal.hold(never()):
        pytest.fail("entered")
    assert events == ["gave up"]


async def count(until: int) -> AsyncIterator[int]:
    for number in range(until):
        yield number


def test_an_iterator_yields_everything_in_order(portal: Portal) -> None:
    assert list(portal.iterate(lambda: count(10_000), lambda _: 0)) == list(range(10_000))


def test_an_iterator_yields_what_came_before_an_error(portal: Portal) -> None:
    async def fail_after(until: int) -> AsyncIterator[int]:
        for number in range(until):
            yield number
        raise NoSuchLogError("orders")

    seen: list[int] = []
    with pytest.raises(NoSuchLogError):
        seen.extend(portal.iterate(lambda: fail_after(3), lambda _: 0))
    iterator = portal.iterate(lambda: fail_after(3), lambda _: 0)
    assert [next(iterator) for _ in range(3)] == [0, 1, 2]


def test_an_iterator_runs_ahead_by_a_bound(portal: Portal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portal_module, "PUMP_BYTES_MAX", 10_000)
    produced: list[int] = []

    async def source() -> AsyncIterator[int]:
        for number in range(1_000):
            produced.append(number)
            yield number

    iterator = portal.iterate(source, lambda _: 1_000 - portal_module.ITEM_BYTES)
    assert next(iterator) == 0
    portal.call(asyncio.sleep(0.01))  # lets the pump run as far as it may
    assert len(produced) <= 20
    assert list(iterator) == list(range(1, 1_000))


def test_breaking_off_ends_the_source(portal: Portal) -> None:
    ended = threading.Event()

    async def endless() -> AsyncIterator[int]:
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            ended.set()

    for _ in portal.iterate(endless, lambda _: 1):
        break
    assert ended.wait(10)


def fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is the point
        return os.fork()


def test_a_forked_child_leaves_a_held_block_in_peace(portal: Portal) -> None:
    traced = Traced()
    child = -1
    try:
        with portal.hold(traced.manager()):
            child = fork()
    finally:
        if child == 0:  # whatever happened: two processes must not go on with the tests
            os._exit(0 if sys.exc_info()[0] is None and traced.events == [] else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert traced.events == ["left"]


def test_a_forked_child_gets_a_clear_error(portal: Portal) -> None:
    child = fork()
    if child == 0:
        try:
            portal.call(nothing())
        except ForkedError:
            try:
                Portal.shared()
            except ForkedError:
                os._exit(0)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


LEFT_BEHIND = """
from contextlib import asynccontextmanager
from quire.sync.portal import Portal

@asynccontextmanager
async def manager():
    yield

held = Portal.shared().hold(manager())
held.__enter__()
"""


def test_a_block_that_the_interpreter_never_left_ends_without_a_word_at_exit() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LEFT_BEHIND], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_work_that_is_cancelled_before_its_first_step_is_over(portal: Portal) -> None:
    outcome: concurrent.futures.Future[None] = concurrent.futures.Future()
    work = nothing()

    def begin_and_cancel() -> None:  # as a busy loop finds both waiting
        portal._begin(work, outcome)
        portal._cancel(work, outcome)

    portal.call_plain(begin_and_cancel)
    assert isinstance(outcome.exception(10), HandleClosedError)
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED


def test_a_call_after_the_loop_ended_says_so() -> None:
    portal = Portal()
    portal._stop()
    work = nothing()
    with pytest.raises(HandleClosedError, match="exit"):
        portal.call(work)
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED


def test_an_iterator_whose_source_is_cancelled_does_not_look_complete(portal: Portal) -> None:
    async def cut_after(until: int) -> AsyncIterator[int]:
        for number in range(until):
            yield number
        raise asyncio.CancelledError  # as at exit, or when what it reads from is torn down

    iterator = portal.iterate(lambda: cut_after(3), lambda _: 0)
    assert [next(iterator) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(HandleClosedError):
        next(iterator)


@pytest.mark.parametrize("end", [SystemExit, KeyboardInterrupt])
def test_a_task_that_wants_to_end_the_process_does_not_end_the_loop(
    portal: Portal, end: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """Every call of the process would wait for ever."""

    async def die() -> None:
        raise end("of somebody's own")

    async def begin() -> asyncio.Task[None]:
        return asyncio.create_task(die())

    async def look(task: asyncio.Task[None]) -> bool:
        await asyncio.wait([task])
        return isinstance(task.exception(), end)

    task = portal.call(begin())
    assert portal.call(look(task))
    assert "of somebody's own" in caplog.text
