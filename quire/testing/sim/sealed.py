"""An event loop with no way out, and the errors that end a simulated run.

Every method of asyncio's abstract loop raises `SimEscape` until a subclass gives it a meaning
inside the simulation. Threads have one when a world says what stands for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NoReturn, Protocol, TypeVar, TypeVarTuple

from quire.aio.computing import Computation

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class SimError(Exception):
    """The run cannot go on: the simulated program, or the simulation itself, is wrong."""


class SimDeadlock(SimError):  # noqa: N818
    """Tasks are waiting and nothing will ever wake them."""


class SimLivelock(SimError):  # noqa: N818
    """Too many steps, in one instant of virtual time or in all."""


class SimEscape(SimError):  # noqa: N818
    """The program tried to leave the simulation: a thread, a socket, an executor."""


class SimUnhandled(SimError):  # noqa: N818
    """No task looked at an exception."""


class Threads(Protocol):
    """A stand-in for the threads of calls that block."""

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]: ...


class SealedLoop(asyncio.AbstractEventLoop):
    """Refuses sockets, threads, signals, executors: everything but work that only computes."""

    threads: Threads | None = None

    def run_in_executor(
        self, executor: object, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        if isinstance(func, Computation):
            return self._computed(func)
        if self.threads is None:
            raise SimEscape(f"{func!r} leaves the simulation for a thread")
        return self.threads.run(lambda: func(*args))

    def _computed(self, work: Computation[T]) -> asyncio.Future[T]:
        """Return the result of work that only computes: no other task can tell when it ran."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(work())
        except Exception as error:
            done.set_exception(error)
        return done


def _escape(name: str) -> Callable[..., NoReturn]:
    def refuse(*args: object, **options: object) -> NoReturn:
        raise SimEscape(f"{name} leaves the simulation")

    return refuse


for _name in asyncio.AbstractEventLoop.__dict__:
    if not _name.startswith("_") and _name not in SealedLoop.__dict__:
        setattr(SealedLoop, _name, _escape(_name))
