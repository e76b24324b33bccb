"""The pending appends of one writer: each waits for space first, then for its answer.

Two queues in the order of the calls. An append that finds no space, or other appends waiting for
space, is queued; when space appears the queue itself pushes, so no append is overtaken. Once pushed
an append waits for LAC; answers are given in entry order, in bulk, when LAC moves. Calls are dated,
and since both queues are in order the oldest is at the front of either: one timer serves all
deadlines.

A cancelled caller abandons its answer: a pushed append stays pushed, and an append that still waits
for space is dropped. An append of no payloads is answered when every append before it is: `drain`.

Not here: how space is counted, how entry ids are given, which error an end means.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from quire.entry import NO_ENTRY, EntryId
from quire.errors import QuireError
from quire.metrics.meter import REFUSED, SILENT_METER, UNKNOWN, ClientMeter

Push = Callable[[bytes], EntryId | None]
"""Push a payload and return its entry; None when there is not enough space."""


EntryError = Callable[[EntryId], QuireError]
"""Make the error for an append with an unknown outcome at an entry."""


@dataclass(slots=True, eq=False)
class Request:
    """An append that waits for room, perhaps with some of its payloads pushed."""

    payloads: Sequence[bytes]
    is_single: bool
    """Whether the answer is an entry rather than a range."""
    started: float
    answer: asyncio.Future[Any]
    admitted: asyncio.Future[None] | None = None
    """Resolved when the last payload is pushed, for a caller that waits for no more."""
    pushed: int = 0
    first: EntryId | None = None

    @property
    def is_abandoned(self) -> bool:
        return self.answer.cancelled() or (self.admitted is not None and self.admitted.cancelled())


class _Awaited(NamedTuple):
    last: EntryId
    answer: asyncio.Future[Any]
    result: EntryId | range
    started: float


class PendingAppends:
    """The appends that wait, and what each waits for."""

    __slots__ = ("_answered", "_awaited", "_expired", "_loop", "_meter", "_waiting")

    def __init__(self, meter: ClientMeter = SILENT_METER, answered: EntryId = NO_ENTRY) -> None:
        """`answered` is the last entry that was answered before."""
        self._meter = meter
        self._loop = asyncio.get_running_loop()
        self._answered = answered
        self._waiting: deque[Request] = deque()
        self._awaited: deque[_Awaited] = deque()
        self._expired: deque[tuple[EntryId, float]] = deque()
        """The last entries of appends that got no answer in time, ascending, and when each was
        called. They stay until they are confirmed: the meter is told how long the oldest took."""

    @property
    def is_waiting(self) -> bool:
        """Whether an append waits for room."""
        return bool(self._waiting)

    @property
    def oldest(self) -> float | None:
        """When the oldest append not yet answered was called."""
        if self._awaited:
            return self._awaited[0].started
        return self._waiting[0].started if self._waiting else None

    def expect(
        self, last: EntryId, answer: asyncio.Future[Any], result: EntryId | range, started: float
    ) -> None:
        """Answer with `result` when `last` is confirmed."""
        self._awaited.append(_Awaited(last, answer, result, started))

    def wait(self, request: Request) -> None:
        """Queue an append until there is room."""
        self._waiting.append(request)

    def admit(self, push: Push, pushed: EntryId) -> EntryId:
        """Push as many payloads as fit, after the last pushed entry; return the new last entry."""
        while self._waiting:
            request = self._waiting[0]
            if not request.is_abandoned:
                pushed = self._push(request, push, pushed)
                if request.pushed < len(request.payloads):
                    return pushed
                self._admitted(request, pushed)
            self._waiting.popleft()
        return pushed

    def _push(self, request: Request, push: Push, pushed: EntryId) -> EntryId:
        """Push payloads of one request until the space is used up."""
        if request.first is None:
            request.first = pushed + 1
        while request.pushed < len(request.payloads):
            entry = push(request.payloads[request.pushed])
            if entry is None:
                break
            pushed = entry
            request.pushed += 1
        return pushed

    def _admitted(self, request: Request, pushed: EntryId) -> None:
        assert request.first is not None
        result = pushed if request.is_single else range(request.first, pushed + 1)
        self.expect(pushed, request.answer, result, request.started)
        if request.admitted is not None:
            request.admitted.set_result(None)

    def resolve(self, lac: EntryId) -> None:
        """Answer the confirmed appends."""
        awaited = self._awaited
        if lac <= self._answered and not (awaited and awaited[0].last <= lac):
            return
        oldest = self._expired[0][1] if self._expired else self.oldest
        while self._expired and self._expired[0][0] <= lac:
            self._expired.popleft()
        while awaited and awaited[0].last <= lac:
            _, answer, result, _ = awaited.popleft()
            if not answer.done():
                answer.set_result(result)
        if lac > self._answered:
            now = self._loop.time()
            self._meter.appended(lac - self._answered, now - (now if oldest is None else oldest))
            self._answered = lac

    def expire(
        self,
        now: float,
        timeout: float,
        unknown: EntryError,
        refused: Callable[[], QuireError],
    ) -> None:
        """Fail the appends called `timeout` seconds ago or earlier, in order.

        An append that was pushed, even in part, fails as `unknown`; any other as `refused`. Due
        times are sums, as the alarm's are: a difference could round to just before its own alarm,
        forever.
        """
        while self._awaited and self._awaited[0].started + timeout <= now:
            last, answer, result, started = self._awaited.popleft()
            _fail(answer, unknown(last))
            if result != range(0):  # else it appended nothing: it waited for those before it
                self._note_unknown(last, started)
        while self._waiting and self._waiting[0].started + timeout <= now:
            request = self._waiting.popleft()
            if not request.payloads:
                _fail(request.admitted or request.answer, refused())
            elif request.pushed and request.first is not None:
                self._note_unknown(request.first + request.pushed - 1, request.started)
                _fail(request.admitted or request.answer, unknown(request.first))
            else:
                self._meter.failed_append(REFUSED)
                _fail(request.admitted or request.answer, refused())

    def _note_unknown(self, last: EntryId, started: float) -> None:
        """Count an append that got no answer in time; its entries may be confirmed later."""
        self._meter.failed_append(UNKNOWN)
        if last > self._answered:
            self._expired.append((last, started))


def _fail(future: asyncio.Future[Any], error: QuireError) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # a caller that dropped the future gets the failure from its next call
