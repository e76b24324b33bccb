"""The outcome of a stamped append: one record, and every caller that submitted it.

A caller that retries an append in flight shares its outcome. The outcome stands in the outbox for
the callers' futures, so a caller that gives up does not affect the others.
"""

from __future__ import annotations

import copy
from asyncio import Future
from collections.abc import Callable
from typing import Any, Protocol

from quire.log.records.position import Appended, Position

SINGLE = 0
"""Count of a group with a single record: its future gets one place instead of a list."""


class Outcome(Protocol):
    """Receives the outcome of a group; a future is an example."""

    def done(self) -> bool: ...

    def set_result(self, result: Any, /) -> None: ...

    def set_exception(self, exception: BaseException, /) -> None: ...

    def exception(self) -> BaseException | None: ...


class SharedOutcome:
    """Passes the outcome of a group to its futures at once, in the same step. It awaits none of the
    futures, and a cancelled future does not end it.
    """

    def __init__(self, on_decided: Callable[[], object]) -> None:
        self._on_decided = on_decided
        self._callers: list[tuple[Future[Any], int]] = []

    def join(self, future: Future[Any], count: int) -> None:
        """Tell a future too, as `count` says (`SINGLE`, or a list)."""
        self._callers.append((future, count))

    def done(self) -> bool:
        """False: another caller may always join."""
        return False

    def set_result(self, result: Any, /) -> None:
        """Tell where the records are."""
        places = [result] if isinstance(result, Appended) else list(result)
        self._on_decided()
        for future, count in self._callers:
            if not future.done():
                answer(future, count, places)

    def set_exception(self, exception: BaseException, /) -> None:
        """Report an error, with a fresh exception for each future."""
        self._on_decided()
        for future, _ in self._callers:
            if not future.done():
                future.set_exception(copy.copy(exception))
                future.exception()  # a caller need not await every record

    def exception(self) -> BaseException | None:
        """Does nothing: each future already has its exception."""
        return None


def places_from(first: Position, offset: int, count: int) -> list[Appended]:
    """Return the places of the records of a group: they share an entry, one after the other."""
    segment, entry, slot = first
    return [Appended(Position(segment, entry, slot + each), offset + each) for each in range(count)]


def answer(future: Future[Any], count: int, places: list[Appended]) -> None:
    """Answer a call with the places of its records, as it was made: for one record or for many."""
    future.set_result(places[0] if count == SINGLE else list(places))
