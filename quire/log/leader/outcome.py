"""The outcome of a stamped append: one record, and everybody who asked for it.

Whoever sends an append again while it is on its way shares its outcome. It stands in the outbox for
their futures, so that who gives up waiting takes nothing from the others.
"""

from __future__ import annotations

import copy
from asyncio import Future
from collections.abc import Callable
from typing import Any, Protocol

from quire.log.records.position import Position

SINGLE = 0
"""Count of a group that is one record, whose future gets a position and not a list of them."""


class Outcome(Protocol):
    """Whom to tell what became of a group; a future is one."""

    def done(self) -> bool: ...

    def set_result(self, result: Any, /) -> None: ...

    def set_exception(self, exception: BaseException, /) -> None: ...

    def exception(self) -> BaseException | None: ...


class SharedOutcome:
    """Tells futures what became of a group, in the very step in which it is told. None of them is
    awaited by it, and none that is cancelled ends it.
    """

    def __init__(self, on_decided: Callable[[], object]) -> None:
        self._on_decided = on_decided
        self._callers: list[tuple[Future[Any], int]] = []

    def join(self, future: Future[Any], count: int) -> None:
        """Tell a future too, as `count` says (`SINGLE`, or a list)."""
        self._callers.append((future, count))

    def done(self) -> bool:
        """Somebody may always join."""
        return False

    def set_result(self, result: Any, /) -> None:
        """Tell where the records are."""
        places = [result] if isinstance(result, Position) else list(result)
        self._on_decided()
        for future, count in self._callers:
            if not future.done():
                answer(future, count, places)

    def set_exception(self, exception: BaseException, /) -> None:
        """Tell what went wrong, everybody by an error of his own."""
        self._on_decided()
        for future, _ in self._callers:
            if not future.done():
                future.set_exception(copy.copy(exception))
                future.exception()  # not everybody waits for every record: no complaint about it

    def exception(self) -> BaseException | None:
        """Nothing: whoever wants it has it."""
        return None


def answer(future: Future[Any], count: int, places: list[Position]) -> None:
    """Answer a call with the places of its records, as it was made: for one record or for many."""
    future.set_result(places[0] if count == SINGLE else list(places))
