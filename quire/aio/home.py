"""The event loop that a handle belongs to, and a clear error in any other one.

A handle holds futures, locks and connections of its loop. In another loop they would wait without
end, or fail in the middle with an error of asyncio that does not name the cause.

All handles of one loop share their home: a process may hold a hundred thousand of them.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from threading import get_ident as this_thread
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from quire.errors import WrongLoopError

T = TypeVar("T")

__all__ = ["Home", "at_home", "home_here", "this_thread"]


class Home:
    """The loop of handles: a given one, or else the loop of the first check.

    A handle that is made outside a coroutine gives none: `quire.sync` makes it in another loop than
    a notebook's.
    """

    __slots__ = ("__weakref__", "_loop", "runs", "thread")

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop
        self.thread: int | None = None
        """The thread of the last check: a hot path compares it."""
        self.runs: Callable[[], bool] = _never if self._loop is None else self._loop.is_running
        """Whether the loop runs now: a hot path asks this, too. If it does, and in this thread,
        it is the running loop.
        """

    def check(self, handle: object) -> None:
        """Raise `WrongLoopError` in a loop that the handle does not belong to.

        Asking asyncio for the running loop costs a system call in Python 3.11.
        """
        if self.thread != this_thread() or not self.runs():
            self._compare(handle)

    def _compare(self, handle: object) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not None and loop is not self._loop:
            raise WrongLoopError(repr(handle))
        self._loop, self.thread, self.runs = loop, this_thread(), loop.is_running


_HOMES: Final[WeakValueDictionary[int, Home]] = WeakValueDictionary()
"""By the identity of the loop, which lives as long as its home."""


def home_here() -> Home:
    """Return the home of handles that are made in the running loop.

    Without a running loop it is a new one, which belongs to the loop of its first check.
    """
    loop = _running()
    if loop is None:
        return Home()
    home = _HOMES.get(id(loop))
    if home is None:
        home = _HOMES[id(loop)] = Home(loop)
    return home


def _never() -> bool:
    return False


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def at_home(cls: type[T]) -> type[T]:
    """Have the public coroutines of a class check `self._home` first. `close` may run anywhere."""
    for name, value in list(vars(cls).items()):
        if inspect.iscoroutinefunction(value) and not name.startswith("_") and name != "close":
            setattr(cls, name, _checked(value))
    return cls


def _checked(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    async def checked(self: Any, *args: Any, **options: Any) -> Any:
        self._home.check(self)
        return await method(self, *args, **options)

    return checked
