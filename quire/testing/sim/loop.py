"""An event loop with a virtual clock, and with every choice from a seed.

Production code runs on it unchanged: asyncio tasks take each step through `call_soon`, so this loop
decides every interleaving. Each *node* (a simulated process) has its own queue,
found through a context variable; the loop draws the node that runs next. Within a node the order is
asyncio's own documented one, first in first out (policy `interleave`); `walk` draws there too;
`priority` gives nodes random priorities that change now and then (after PCT).

  - When nothing is ready, time jumps to the next timer. Nothing at all left: `SimDeadlock`.
  - A node that is killed never takes another step: no CancelledError, no `finally`. The loop keeps
    references to its tasks, so that garbage collection runs no cleanup either, until `dispose`.
  - A paused node's callbacks wait in its queue.
  - Threads, sockets and executors raise `SimEscape`: nothing may happen outside the seed. A world
    may put its own `threads` in their place.
  - The trace is a running hash over every step and every note; equal traces mean equal runs.

Sets of tasks (as `TaskGroup` keeps) would iterate in address order, so tasks hash by serial number.
Not here: what nodes mean (world.py), how they talk (lines.py).
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import random
import sys
import threading
import types
from asyncio import events
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import Any, Final, TypeVar, TypeVarTuple

from quire.testing.sim.policy import CHOICES, Policy
from quire.testing.sim.process import (
    NODE,
    Incarnation,
    Nap,
    SimHandle,
    SimTask,
    last_words_ignored,
    unwind,
)
from quire.testing.sim.sealed import (
    SealedLoop,
    SimDeadlock,
    SimError,
    SimEscape,
    SimLivelock,
    SimUnhandled,
)
from quire.testing.sim.trace import TRACE_BATCH, SimTrace

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

STEPS_PER_INSTANT_MAX: Final = 50_000
STEPS_MAX: Final = 1_000_000
TASKS_PRUNE: Final = 4096

_end_sleep: Final[Callable[..., object]] = asyncio.futures._set_result_unless_cancelled  # type: ignore[attr-defined]
"""What `asyncio.sleep` has its timer call: as with any future, the sleeper's next step is drawn."""


class SimLoop(SealedLoop):
    """See the module. One instance runs one seed, once."""

    def __init__(self, rng: random.Random, *, policy: Policy = Policy.INTERLEAVE) -> None:
        self._random = rng.random
        self._policy = policy
        self._now = 0.0
        self._timers: list[tuple[float, int, SimHandle]] = []
        self._sequence = 0
        self._serial = 0
        self._runnable: list[Incarnation] = []
        self._tasks: list[SimTask[Any]] = []
        self._prune_at = TASKS_PRUNE
        self._graveyard: list[object] = []
        self._stopping = False
        self._running = False
        self._closed = False
        self._failure: BaseException | None = None
        self._nap: Nap | None = None
        """How the step under way ends."""
        self._thread = threading.get_ident()
        self.trace = SimTrace()
        self.ailing: set[str] = set()
        """Names of machines with a damaged disk: they may report damage."""
        self.steps = 0
        self.root = Incarnation(self, "world", 0)

    # -- scheduling ---------------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> SimHandle:
        if context is None:
            context = contextvars.copy_context()
        home = context.get(NODE, self.root)
        self._sequence = sequence = self._sequence + 1
        handle = SimHandle(callback, args, context, home, sequence, self._now)
        if self._nap is None:
            self._enqueue(handle)
        else:
            self._put_to_bed(handle, self._nap)
        return handle

    def _enqueue(self, handle: SimHandle) -> None:
        home = handle.home
        if self._closed or not home.alive:
            self._graveyard.append(handle)
            return
        queue = home.queue
        if not queue and not home.paused:
            self._runnable.append(home)
        queue.append(handle)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> SimHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> SimHandle:
        if context is None:
            context = contextvars.copy_context()
        home = context.get(NODE, self.root)
        self._sequence = sequence = self._sequence + 1
        handle = SimHandle(callback, args, context, home, sequence, when)
        if not self._closed:
            heapq.heappush(self._timers, (when, sequence, handle))
        return handle

    @types.coroutine
    def nap(self, seconds: float) -> Generator[None, None, None]:
        """Sleep as `asyncio.sleep` does, at half the cost: no future, one handle."""
        self._nap = nap = Nap(seconds)
        yield
        nap.handle.callback = None  # it is over: cancelling the task need not end it

    def _put_to_bed(self, handle: SimHandle, nap: Nap) -> None:
        """Let a task's next step come later; a cancellation wakes it (`hurry`)."""
        self._nap, nap.handle = None, handle
        task = handle.callback.__self__  # type: ignore[union-attr]
        if task._must_cancel:
            self._enqueue(handle)
            return
        task.nap = nap
        heapq.heappush(self._timers, (self._now + nap.seconds, handle.sequence, handle))

    def hurry(self, nap: Nap) -> None:
        """Let a napping task go on now."""
        handle = nap.handle
        callback, args = handle.callback, handle.args
        if callback is not None:
            handle.cancel()
            self.call_soon(callback, *args, context=handle.context)

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> SimHandle:
        if threading.get_ident() != self._thread:
            raise SimEscape(f"{callback!r} was called in from another thread")
        return self.call_soon(callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        self._serial = serial = self._serial + 1
        home = NODE.get(self.root) if context is None else context.get(NODE, self.root)
        task: SimTask[T] = SimTask(
            coro,
            serial=serial,
            home=home,
            loop=self,
            name=name or f"task-{serial}",
            context=context,
        )
        self._tasks.append(task)
        if len(self._tasks) > self._prune_at:
            self._prune()
        return task

    def _prune(self) -> None:
        """Forget the tasks that ended well."""
        self._tasks = [task for task in self._tasks if not task.done() or _unretrieved(task)]
        self._prune_at = len(self._tasks) + TASKS_PRUNE

    # -- processes ----------------------------------------------------------------------------

    def kill(self, node: Incarnation) -> None:
        """End a process between two of its steps; nothing of it runs again."""
        node.alive = False
        if node in self._runnable:
            self._runnable.remove(node)
        self._graveyard.append(node)

    def pause(self, node: Incarnation) -> None:
        """Stop a process (SIGSTOP)."""
        node.paused = True
        if node in self._runnable:
            self._runnable.remove(node)

    def resume(self, node: Incarnation) -> None:
        """Let a stopped process go on (SIGCONT)."""
        if node.paused:
            node.paused = False
            if node.queue and node.alive:
                self._runnable.append(node)

    # -- running ------------------------------------------------------------------------------

    def run_until_complete(self, future: Any) -> Any:
        """Run until `future` (a coroutine or future) is done and return its result."""
        main = asyncio.ensure_future(future, loop=self)
        main.add_done_callback(lambda _: self.stop())
        self.run_forever()
        if not main.done():
            raise SimError("the loop was stopped before its work was done")
        return main.result()

    def run_forever(self, *, ready_only: bool = False) -> None:
        """Run until `stop`; with `ready_only` until nothing is ready at this moment."""
        hooks = sys.get_asyncgen_hooks()
        previous = events._get_running_loop()
        events._set_running_loop(self)
        sys.set_asyncgen_hooks(finalizer=self._end_generator)
        self._running = True
        self._stopping = False
        try:
            self._run(ready_only)
        finally:
            self._running = False
            sys.set_asyncgen_hooks(*hooks)
            events._set_running_loop(previous)

    def _run(self, ready_only: bool) -> None:
        runnable = self._runnable
        trace = self.trace.batch.append
        draw, choose = self._random, CHOICES[self._policy]
        is_plain = self._policy is Policy.INTERLEAVE
        steps = self.steps
        steps_max = steps + STEPS_PER_INSTANT_MAX
        while not self._stopping:
            if not runnable:
                if ready_only:
                    return
                self._advance()
                steps_max = min(steps + STEPS_PER_INSTANT_MAX, STEPS_MAX)
                continue
            if is_plain:
                count = len(runnable)
                index = int(draw() * count) if count > 1 else 0
                queue = runnable[index].queue
                handle = queue.popleft()
                if not queue:
                    runnable[index] = runnable[-1]
                    runnable.pop()
            else:
                handle = choose(runnable, draw)
            callback = handle.callback
            if callback is None:
                continue
            self.steps = steps = steps + 1
            trace(handle.sequence)
            try:
                handle.context.run(callback, *handle.args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                self._failure = self._failure or error
            if self._failure is not None:
                raise self._failure
            if steps > steps_max:
                raise SimLivelock(f"{steps} steps by virtual time {self._now:.6f}")

    def _advance(self) -> None:
        """Jump to the next timer and make everything due then ready."""
        timers = self._timers
        while timers:
            handle = timers[0][2]
            if handle.callback is not None:
                if handle.home.alive:
                    break
                self._graveyard.append(handle)
            heapq.heappop(timers)
        else:
            raise SimDeadlock("nothing will ever happen again; waiting: " + self.waiting())
        self._now = now = max(self._now, timers[0][0])
        batch = self.trace.batch
        batch.append(now)
        if len(batch) > TRACE_BATCH:
            self.trace.flush()
        while timers and timers[0][0] <= now:
            handle = heapq.heappop(timers)[2]
            callback = handle.callback
            if callback is _end_sleep:
                callback(*handle.args)  # only makes the sleeper ready: no step of its own
            elif callback is not None:
                self._enqueue(handle)

    def waiting(self) -> str:
        """Name the tasks that are not done, by process."""
        names = [f"{t.home}:{t.get_name()}" for t in self._tasks if not t.done() and t.home.alive]
        return ", ".join(names) or "no task"

    def pending(self, node: Incarnation) -> list[str]:
        """The names of a process's tasks that are not done."""
        return [t.get_name() for t in self._tasks if t.home is node and not t.done()]

    def check_unhandled(self) -> None:
        """Raise `SimUnhandled` when a task of a living process failed and no other task looked.

        The run may have ended between the end of a task and the callbacks that look at it. So what
        is ready now has its turn before a task is called forgotten.
        """
        if self._forgotten() and not self._running:
            self.run_forever(ready_only=True)
        for task in self._forgotten():
            error = task.exception()
            raise SimUnhandled(f"task {task.get_name()} of {task.home} failed") from error

    def _forgotten(self) -> list[SimTask[Any]]:
        found = (task for task in self._tasks if task.home.alive and task.done())
        return [task for task in found if _unretrieved(task)]

    def fail(self, error: BaseException) -> None:
        """End the run with this error after the step under way."""
        self._failure = self._failure or error

    def note(self, text: str) -> None:
        """Put a fact into the trace."""
        self.trace.note(text)

    def stop(self) -> None:
        self._stopping = True

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True

    def dispose(self) -> None:
        """End the run: unwind every coroutine that is left, ignoring its last words."""
        self._closed = True
        asyncio.set_event_loop(
            None
        )  # or `gather` of nothing would make a loop that is never closed
        with last_words_ignored():
            for task in self._tasks:
                if task.done():
                    task._log_traceback = False
                else:
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    unwind(task.get_coro())
            self._tasks.clear()
            self._graveyard.clear()
            self._timers.clear()

    async def shutdown_asyncgens(self) -> None:
        return None

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        return None

    def _end_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        """An abandoned asynchronous generator is closed by a task, as asyncio does."""
        if not self._closed and NODE.get(self.root).alive:
            self.create_task(generator.aclose(), name="aclose")

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._closed and self._failure is None:
            failure = SimUnhandled(str(context.get("message")))
            failure.__cause__ = context.get("exception")
            self._failure = failure

    default_exception_handler = call_exception_handler

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        return None


def _unretrieved(task: asyncio.Task[Any]) -> bool:
    return bool(task._log_traceback)


def new_loop(rng: random.Random, policy: Policy = Policy.INTERLEAVE) -> SimLoop:
    """Make the loop of one run. Everything that it lacks raises `SimEscape`."""
    return SimLoop(rng, policy=policy)  # type: ignore[abstract]
