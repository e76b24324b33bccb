"""The event loop to run on: uvloop's where it is installed.

`asyncio.run` uses the loop of the process's policy. A library that is imported must not change the
policy of the whole process, so an application chooses: by `run_async`, or with `loop_factory` for
a runner of its own.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes uvloop's event loop, or None (asyncio's own) without uvloop.

    Returns:
        The argument `loop_factory` of `asyncio.Runner`.

    Raises:
        Nothing.

    Guarantees:
        Neither the policy nor any loop of the process is changed.
    """
    if sys.platform == "win32":
        return None
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def run_async(main: Coroutine[Any, Any, T]) -> T:
    """Run a program as `asyncio.run` does, on uvloop where it is installed (`pip install uvloop`).

    Args:
        main: the coroutine of the program.

    Returns:
        Its result.

    Raises:
        RuntimeError: an event loop runs in this thread already: await the coroutine there.
        Anything that `main` raises.

    Cancellation:
        Ctrl-C cancels `main`, and KeyboardInterrupt is raised once `main` has ended.

    Guarantees:
        The loop is closed afterwards, and its tasks are cancelled and awaited before. The policy of
        the process is not changed.
    """
    if _is_running():
        main.close()  # else Python complains that it was not awaited
        raise RuntimeError("an event loop runs in this thread already: await the coroutine there")
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main)


def _is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
