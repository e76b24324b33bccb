"""One connection to a bookie of Apache's, over the third protocol.

Requests are sent in the order of the calls. Answers come in any order and are matched by
transaction. Requests made before the connection stands wait, and when it breaks every call under
way fails with the reason. A bookie resets a connection for a message that is too large, so one bad
request would cost all others their answers; such requests are refused before they come here.

A run has one future for all its frames. A call that gets no answer in time breaks the connection if
that brought nothing at all since: its other end is gone, or hangs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

from quire.aio.timing import time_limit
from quire.bookkeeper import wire3
from quire.bookkeeper.message_stream import Endpoint, MessageStream
from quire.bookkeeper.shared_adds import PreparedRun, Transactions
from quire.bookkeeper.status import Status
from quire.bookkeeper.wire3 import BookieAnswer
from quire.errors import BookieUnavailableError, QuireError

Make: TypeAlias = Callable[[int], bytes]
"""Gives a request for a transaction."""


class _RunOfAdds:
    """The adds of one run: how many are not answered, and the call that tells the caller."""

    __slots__ = ("answer", "error", "left", "sent_at")

    def __init__(
        self, left: int, error: Callable[[BookieAnswer], QuireError], sent_at: float
    ) -> None:
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.left = left
        self.error = error
        self.sent_at = sent_at

    def succeed(self) -> None:
        self.left -= 1
        if not self.left and not self.answer.done():
            self.answer.set_result(None)

    def fail(self, error: QuireError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class _Calls:
    """Requests that were sent at once, and their answers so far in the same order."""

    __slots__ = ("_first", "_left", "all", "answers")

    def __init__(self, first: int, count: int, missing: QuireError) -> None:
        self.answers: list[BookieAnswer | QuireError] = [missing] * count
        self.all: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when all are answered, or none will be any more."""
        self._first = first
        self._left = count

    def take(self, answer: BookieAnswer) -> None:
        self.answers[answer.transaction - self._first] = answer
        self._left -= 1
        if not self._left:
            self.end()

    def end(self) -> None:
        if not self.all.done():
            self.all.set_result(None)

    def fail(self, error: QuireError) -> None:
        """Let an error be the answer to all requests that have none."""
        self.answers = [error if isinstance(each, QuireError) else each for each in self.answers]
        self.end()


class BookieConnection(MessageStream):
    """See the module. Opened at once; needs a running loop."""

    def __init__(self, endpoint: Endpoint, transactions: Transactions | None = None) -> None:
        """`transactions` are shared by all connections of a client."""
        self._transactions = transactions or Transactions()
        self._calls: dict[int, _Calls] = {}
        self._adds: dict[int, _RunOfAdds] = {}
        self._runs: dict[_RunOfAdds, None] = {}
        self._alarm: asyncio.TimerHandle | None = None
        super().__init__(endpoint)

    async def call(self, make: Make, timeout: float | None = None) -> BookieAnswer:
        """Send the request that `make` gives for a transaction, and return the answer. Raises as
        `call_many` returns.
        """
        (answer,) = await self.call_many([make], timeout)
        if isinstance(answer, QuireError):
            raise answer
        return answer

    async def call_many(
        self, makes: Sequence[Make], timeout: float | None = None
    ) -> list[BookieAnswer | QuireError]:
        """Send requests at once, and return their answers in the same order.

        An answer is `BookieUnavailableError` when the connection broke, or none came within
        `timeout` seconds, the connection's own when None. Raises it when the connection is over
        already.
        """
        self._check()
        seconds = self._timeout if timeout is None else timeout
        first, asked_at = self._transactions.take(len(makes)), self._loop.time()
        late = self.unavailable(f"no answer within {seconds:g} s")
        calls = _Calls(first, len(makes), late)
        numbers = range(first, first + len(makes))
        self._calls.update(dict.fromkeys(numbers, calls))
        self._send([make(number) for make, number in zip(makes, numbers, strict=True)])
        try:
            async with time_limit(seconds):
                await calls.all
        except TimeoutError:
            if timeout is None:
                self._look_whether_gone(asked_at)
        finally:
            for number in numbers:
                self._calls.pop(number, None)
        return calls.answers

    def add(
        self,
        prepared: PreparedRun,
        error: Callable[[BookieAnswer], QuireError],
    ) -> asyncio.Future[None]:
        """Send the adds of a run; the future is done when all are answered with OK.

        `error` says what another answer is. Raises `BookieUnavailableError` when the connection
        is over.
        """
        self._check()
        first, count = prepared.transaction, len(prepared.entries)
        run = _RunOfAdds(count, error, self._loop.time())
        self._adds.update(dict.fromkeys(range(first, first + count), run))
        self._runs[run] = None
        run.answer.add_done_callback(lambda _: self._runs.pop(run, None))
        self._send(prepared.pieces)
        if self._alarm is None:
            self._alarm = self._loop.call_later(self._timeout, self._look_at_runs)
        return run.answer

    def _abandon(self, error: BookieUnavailableError) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        for run in list(self._runs):
            run.fail(error)
        for calls in dict.fromkeys(self._calls.values()):
            calls.fail(error)
        self._calls.clear()
        self._adds.clear()

    # Answers.

    def _take(self, message: bytes) -> None:
        added = wire3.read_added(message)
        if added is not None and added[1] == Status.OK:
            run = self._adds.pop(added[0], None)
            if run is not None:
                run.succeed()
            return
        answer = wire3.read_answer(message)
        run = self._adds.pop(answer.transaction, None)
        if run is not None:
            run.fail(run.error(answer))
            return
        calls = self._calls.pop(answer.transaction, None)
        if calls is not None:
            calls.take(answer)

    # Time.

    def _look_at_runs(self) -> None:
        """Fail the runs that wait for too long, and come back for the next."""
        self._alarm = None
        now = self._loop.time()
        for run in list(self._runs):
            if run.sent_at + self._timeout > now:
                self._alarm = self._loop.call_at(run.sent_at + self._timeout, self._look_at_runs)
                return
            self._look_whether_gone(run.sent_at)
            run.fail(self.unavailable(f"no answer within {self._timeout:g} s"))
