"""Simulated processes: their lives, their tasks and their scheduled callbacks.

A process is found through the context variable `NODE`, which every task and callback inherits. Its
*incarnation* is one life of it: a restart is a new incarnation, and everything that still carries
the old one is dead. Not here: which process runs next (loop.py), and its parts (world.py).
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Spawner(Protocol):
    """The part of a loop that a process needs."""

    def create_task(
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]: ...

    def hurry(self, nap: Nap) -> None: ...


class SimHandle(asyncio.TimerHandle):
    """A scheduled callback, as light as asyncio allows: the base class only lends its type."""

    __slots__ = ("args", "callback", "context", "home", "sequence")

    def __init__(
        self,
        callback: Callable[..., object] | None,
        args: tuple[Any, ...],
        context: contextvars.Context,
        home: Incarnation,
        sequence: int,
        when: float,
    ) -> None:  # the parent's constructor is left out on purpose: it costs more than the rest
        self.callback = callback
        self.args = args
        self.context = context
        self.home = home
        self.sequence = sequence
        self._when = when

    def __repr__(self) -> str:
        return f"<handle {self.sequence}>"

    def cancel(self) -> None:
        self.callback = None
        self.args = ()

    def cancelled(self) -> bool:
        return self.callback is None

    def when(self) -> float:
        return self._when

    def get_context(self) -> contextvars.Context:
        return self.context


class Nap:
    """A sleep without a future: the step after it comes later."""

    __slots__ = ("handle", "seconds")

    handle: SimHandle

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class Incarnation:
    """One life of a simulated process: its waiting steps, and whether they may run."""

    def __init__(self, loop: Spawner, name: str, number: int) -> None:
        self.loop = loop
        self.name = name
        self.number = number
        self.alive = True
        self.paused = False
        self.priority = 0.0
        self.queue: deque[SimHandle] = deque()
        self.context = contextvars.Context()
        self.context.run(NODE.set, self)

    def __repr__(self) -> str:
        return f"{self.name}#{self.number}"

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """Start a task of this process, also from outside."""
        return self.loop.create_task(work, name=name, context=self.context.copy())


NODE: contextvars.ContextVar[Incarnation] = contextvars.ContextVar("node")


class SimTask(asyncio.Task[T]):
    """A task that hashes by serial number, so that sets of tasks have an order."""

    nap: Nap | None = None
    """The last one it took (`SimLoop.nap`)."""

    def __init__(self, work: Any, *, serial: int, home: Incarnation, **options: Any) -> None:
        self.serial = serial
        self.home = home
        super().__init__(work, **options)

    def cancel(self, msg: Any | None = None) -> bool:
        if self.nap is not None and not self.done():
            self.home.loop.hurry(self.nap)
        return super().cancel(msg)

    def __hash__(self) -> int:
        return self.serial


@contextmanager
def last_words_ignored() -> Iterator[None]:
    """Let collected objects end in silence here: its loop is gone, so its cleanup fails."""
    hook = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        yield
    finally:
        sys.unraisablehook = hook


def unwind(work: Any) -> None:
    """Close a coroutine, however often it awaits on its way out."""
    if inspect.iscoroutine(work) and inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
        for held in inspect.getcoroutinelocals(work).values():
            if inspect.iscoroutine(held):
                unwind(held)
    for _ in range(16):
        try:
            work.close()
        except BaseException:
            continue
        return
