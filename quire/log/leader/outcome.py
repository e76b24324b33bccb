"""The outcome of an append with a producer sequence: one record, and every caller that sent it.

A caller that retries an append in flight shares its outcome. The accumulator holds the shared
outcome in place of the callers' futures, so a caller that gives up does not affect the others.
"""

from __future__ import annotations

import copy
from asyncio import Future
from collections.abc import Callable
from typing import Any, Protocol

from quire.log.records.position import Appended, Position, RepeatedAppend

SINGLE = 0
"""Count of a group with a single record: its future gets one place instead of a list."""


class Outcome(Protocol):
    """Receives the outcome of a group. An `asyncio.Future` is one."""

    def done(self) -> bool: ...

    def set_result(self, result: Any, /) -> None: ...

    def set_exception(self, exception: BaseException, /) -> None: ...

    def exception(self) -> BaseException | None: ...


class SharedOutcome:
    """Passes the outcome of a group to all its futures, in the same step of the event loop.

    It never awaits a future, and a cancelled future does not affect the others.
    """

    def __init__(self, on_decided: Callable[[], object]) -> None:
        self._on_decided = on_decided
        self._callers: list[tuple[Future[Any], int, bool]] = []

    def join(self, future: Future[Any], count: int, *, repeats: bool = False) -> None:
        """Add a future. With `count` = `SINGLE` it gets one place, otherwise a list."""
        self._callers.append((future, count, repeats))

    def done(self) -> bool:
        """False: another caller may always join."""
        return False

    def set_result(self, result: Any, /) -> None:
        """Pass on the places of the records."""
        places = [result] if isinstance(result, Appended) else list(result)
        self._on_decided()
        for future, count, repeats in self._callers:
            if not future.done():
                answer(future, count, repeated(places) if repeats else places)

    def set_exception(self, exception: BaseException, /) -> None:
        """Report an error, with a fresh exception for each future."""
        self._on_decided()
        for future, *_ in self._callers:
            if not future.done():
                future.set_exception(copy.copy(exception))
                future.exception()  # a caller need not await every record

    def exception(self) -> BaseException | None:
        """Does nothing: each future already has its exception."""
        return None


def places_from(first: Position, offset: int, count: int) -> list[Appended]:
    """Return the places of the records of a group: consecutive slots of one entry."""
    segment, entry, slot = first
    return [Appended(Position(segment, entry, slot + each), offset + each) for each in range(count)]


def repeated(places: list[Appended]) -> list[Appended]:
    """Return the places as the answer to a repetition."""
    return [RepeatedAppend(*each) for each in places]


def answer(future: Future[Any], count: int, places: list[Appended]) -> None:
    """Complete the future of a call: with one place for `SINGLE`, otherwise with a list."""
    future.set_result(places[0] if count == SINGLE else list(places))
