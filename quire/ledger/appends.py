"""The appends of one writer that somebody waits for: for room first, then for the answer.

Two queues in the order of the calls. An append that finds no room, or others waiting for it, is
queued; when room appears the queue itself pushes, so nobody is overtaken. Once pushed an append
waits for LAC; answers are given in entry order, in bulk, when LAC moves. Calls are dated, and
since both queues are in order the oldest is at the front of either: one timer serves all
deadlines.

A cancelled caller abandons its answer: what was pushed stays pushed, what still waited for room is
dropped. An append of no payloads is answered when everything before it is: that is `drain`.

Not here: what room is, what an entry id is, which error an end means.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from quire.entry import EntryId
from quire.errors import QuireError

Push = Callable[[bytes], EntryId | None]
"""Push a payload and return its entry; None when there is no room."""


EntryError = Callable[[EntryId], QuireError]
"""Make the error for an append whose outcome at an entry is unknown."""


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


class Appends:
    """Who waits for what."""

    __slots__ = ("_awaited", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[Request] = deque()
        self._awaited: deque[_Awaited] = deque()

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
        """Push what there is room for, behind the entry pushed last; return the last one now."""
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
        """Push payloads of one request until there is no room."""
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
        """Answer what is confirmed."""
        awaited = self._awaited
        while awaited and awaited[0].last <= lac:
            _, answer, result, _ = awaited.popleft()
            if not answer.done():
                answer.set_result(result)

    def expire(
        self,
        now: float,
        timeout: float,
        unknown: EntryError,
        refused: Callable[[], QuireError],
    ) -> None:
        """Fail the appends called `timeout` seconds ago or earlier, in order.

        What was pushed, even in part, fails as `unknown`; what was not, as `refused`. Due times
        are sums, as the alarm's are: a difference could round to just before its own alarm, for
        ever.
        """
        while self._awaited and self._awaited[0].started + timeout <= now:
            last, answer, _, _ = self._awaited.popleft()
            _fail(answer, unknown(last))
        while self._waiting and self._waiting[0].started + timeout <= now:
            request = self._waiting.popleft()
            if request.pushed and request.first is not None:
                _fail(request.admitted or request.answer, unknown(request.first))
            else:
                _fail(request.admitted or request.answer, refused())


def _fail(future: asyncio.Future[Any], error: QuireError) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # whoever dropped the future learns of the failure from the next call
