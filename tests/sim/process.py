"""Simulated processes: their lives, their tasks and their scheduled callbacks.

A process is found through the context variable `NODE`, which every task and callback inherits. Its
*incarnation* is one life of it: a restart is a new incarnation, and whatever still carries the old
one is dead.
Not here: who runs next (loop.py), what a process is made of (world.py).
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Spawner(Protocol):
    """What a process needs of its loop."""

    def create_task(
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]: ...


class Handle(asyncio.TimerHandle):
    """A scheduled callback, as light as asyncio allows: the base class only lends its type."""

    __slots__ = ("args", "callback", "context", "sequence")

    def __init__(
        self,
        callback: Callable[..., object] | None,
        args: tuple[Any, ...],
        context: contextvars.Context,
        sequence: int,
        when: float,
    ) -> None:  # the parent's constructor is left out on purpose: it costs more than the rest
        self.callback = callback
        self.args = args
        self.context = context
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


class Incarnation:
    """One life of a simulated process: what it still has to do, and whether it may."""

    def __init__(self, loop: Spawner, name: str, number: int) -> None:
        self.loop = loop
        self.name = name
        self.number = number
        self.alive = True
        self.paused = False
        self.priority = 0.0
        self.queue: deque[Handle] = deque()
        self.context = contextvars.Context()
        self.context.run(NODE.set, self)

    def __repr__(self) -> str:
        return f"{self.name}#{self.number}"

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """Start a task of this process, whoever asks for it."""
        return self.loop.create_task(work, name=name, context=self.context.copy())


NODE: contextvars.ContextVar[Incarnation] = contextvars.ContextVar("node")


class SimTask(asyncio.Task[T]):
    """A task that hashes by serial number, so that sets of tasks have an order."""

    def __init__(self, work: Any, *, serial: int, home: Incarnation, **options: Any) -> None:
        self.serial = serial
        self.home = home
        super().__init__(work, **options)

    def __hash__(self) -> int:
        return self.serial
