"""Flow control: bounds on the records and bytes that a leader queues for the bookies.

A caller without space waits in line. It is served at the moment when space is given back, before
its task runs, so records keep the order of the calls. A request larger than the whole space is
admitted when the space is empty.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _WaitingCaller:
    turn: asyncio.Future[None]
    records: int
    size: int
    serve: Callable[[], bool]


class Room:
    """Space for records and bytes, first come first served. For one event loop."""

    __slots__ = ("_bytes", "_bytes_max", "_line", "_records", "_records_max")

    def __init__(self, records_max: int, bytes_max: int) -> None:
        self._records_max = records_max
        self._bytes_max = bytes_max
        self._records = 0
        self._bytes = 0
        self._line: deque[_WaitingCaller] = deque()

    @property
    def records(self) -> int:
        """Records that hold space."""
        return self._records

    @property
    def is_in_use(self) -> bool:
        """Whether records hold space, or callers wait for it."""
        return bool(self._records or self._line)

    def _fits(self, records: int, size: int) -> bool:
        return not self._records or (
            self._records + records <= self._records_max and self._bytes + size <= self._bytes_max
        )

    def _enter(self, records: int, size: int) -> None:
        self._records += records
        self._bytes += size

    def enter_now(self, records: int, size: int) -> bool:
        """Take space if there is enough and the line is empty. Return whether it was taken."""
        held, size_held = self._records, self._bytes  # inlined `_fits`: called for every record
        if self._line or (
            held and (held + records > self._records_max or size_held + size > self._bytes_max)
        ):
            return False
        self._records, self._bytes = held + records, size_held + size
        return True

    async def enter(self, records: int, size: int, serve: Callable[[], bool]) -> None:
        """Wait in line until there is space, then call `serve` and return.

        `serve` returns whether the space is taken. If it raises, the space stays free and this call
        raises the error. Also raises the error that `shut` was given.

        Cancellation: leaves the line, unless `serve` was called already.
        """
        if not self._line and self._fits(records, size):
            if serve():
                self._enter(records, size)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(_WaitingCaller(turn, records, size, serve))
        await turn

    def leave(self, records: int, size: int) -> None:
        """Give space back and serve the waiting callers that fit."""
        self._records -= records
        self._bytes -= size
        line = self._line
        while line and (line[0].turn.done() or self._fits(line[0].records, line[0].size)):
            first = line.popleft()
            if not first.turn.done():
                self._serve(first)

    def _serve(self, first: _WaitingCaller) -> None:
        try:
            if first.serve():
                self._enter(first.records, first.size)
        except Exception as error:
            first.turn.set_exception(error)  # only this caller fails; the next is still served
        else:
            first.turn.set_result(None)

    def shut(self, error: Callable[[], BaseException]) -> None:
        """Fail every caller in line."""
        while self._line:
            turn = self._line.popleft().turn
            if not turn.done():
                turn.set_exception(error())
