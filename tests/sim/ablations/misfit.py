"""Errors of a patch that does not fit the code any more. They notice no missing safeguard."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final

MISFITS: Final = (AttributeError, ImportError, NameError, TypeError)


def watched(value: Any, misfits: list[Exception]) -> Any:
    """Return a patch that notes its misfits before it raises them.

    A task of production code may swallow them. Then the run does not end, which looks like a
    noticed safeguard. Only functions are watched.
    """
    if inspect.iscoroutinefunction(value):
        return _watched_coroutine(value, misfits)
    return _watched_call(value, misfits) if inspect.isfunction(value) else value


def _watched_coroutine(value: Callable[..., Any], misfits: list[Exception]) -> Callable[..., Any]:
    @functools.wraps(value)
    async def call(*given: Any, **more: Any) -> Any:
        try:
            return await value(*given, **more)
        except MISFITS as error:
            misfits.append(error)
            raise

    return call


def _watched_call(value: Callable[..., Any], misfits: list[Exception]) -> Callable[..., Any]:
    @functools.wraps(value)
    def call(*given: Any, **more: Any) -> Any:
        try:
            return value(*given, **more)
        except MISFITS as error:
            misfits.append(error)
            raise

    return call
