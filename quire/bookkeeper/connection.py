"""One connection to a bookie of Apache's, over the third protocol.

Requests are sent in the order of the calls. Answers come in any order and are matched by
transaction. Requests made before the connection stands wait, and when it breaks every call under
way fails with the reason. A bookie resets a connection for a message that is too large, so one bad
request would cost all others their answers; such requests are refused before they come here.

The answers to a run are compared with the bytes that are expected (add_bundles.py), and taken apart
where they differ. A run calls back once, for all its frames. A call that gets no answer in time
breaks the connection if that brought nothing at all since: its other end is gone, or hangs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

from quire.aio.answer import Answered, tell
from quire.aio.timing import time_limit
from quire.bookkeeper import wire3
from quire.bookkeeper.add_bundles import AddBundle
from quire.bookkeeper.message_stream import Endpoint, MessageStream
from quire.bookkeeper.protobuf import MalformedError
from quire.bookkeeper.shared_adds import Transactions
from quire.bookkeeper.status import Status
from quire.bookkeeper.wire3 import SIZE, BookieAnswer, Operation
from quire.errors import BookieUnavailableError, QuireError

Make: TypeAlias = Callable[[int], bytes]
"""Gives a request for a transaction."""

ErrorOf: TypeAlias = Callable[[BookieAnswer], QuireError]
"""Says what an answer other than OK is."""


class _RunOfAdds:
    """The adds of one run: which are not answered, and the call that tells the caller."""

    __slots__ = ("_answered", "_beyond", "bundle", "done", "error", "sent_at")

    def __init__(self, bundle: AddBundle, answered: Answered, error: ErrorOf, at: float) -> None:
        self.bundle = bundle
        self.done = 0
        """Answers that came in order."""
        self.error = error
        self.sent_at = at
        self._answered = answered
        self._beyond: set[int] = set()
        """Numbers of other answers that came."""

    @property
    def expected(self) -> int:
        """The transaction to be answered next."""
        return self.bundle.transaction + self.done

    @property
    def is_done(self) -> bool:
        return self.done == len(self.bundle.entries)

    def awaits(self, transaction: int) -> bool:
        """Whether an add of the run has this transaction, and is not answered."""
        place = transaction - self.bundle.transaction
        return self.done <= place < len(self.bundle.entries) and place not in self._beyond

    def take(self, answer: BookieAnswer) -> None:
        """Count an answer of OK that the run awaits, in any order. Raises `MalformedError` for an
        answer about another entry.
        """
        place = answer.transaction - self.bundle.transaction
        asked = self.bundle.ledger, self.bundle.entries[place]
        told = answer.part.number(2), answer.part.number(3)
        if told != asked:
            raise MalformedError(
                "it answered the add of entry {1} of ledger {0} with ".format(*asked)
                + "entry {1} of ledger {0}".format(*told)
            )
        self._beyond.add(place)
        self.advance(0)

    def advance(self, count: int) -> None:
        """Count answers that came in order."""
        self.done += count
        while self._beyond and self.done in self._beyond:
            self._beyond.remove(self.done)
            self.done += 1

    def tell(self, outcome: QuireError | None) -> None:
        tell(self._answered, outcome)


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
        """Runs under way, by the transaction that each expects an answer to."""
        self._runs: dict[_RunOfAdds, None] = {}
        """The same, by the time of sending."""
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

    def add(self, bundle: AddBundle, answered: Answered, error: ErrorOf) -> None:
        """Send the adds of a run. `answered` is called when all have an answer of OK, or with what
        `error` says of the first other answer; never before this returns.

        Raises `BookieUnavailableError` when the connection is over.
        """
        self._check()
        run = _RunOfAdds(bundle, answered, error, self._loop.time())
        self._adds[run.expected] = run
        self._runs[run] = None
        self._send((bundle.requests,))
        if self._alarm is None:
            self._alarm = self._loop.call_later(self._timeout, self._look_at_runs)

    def _abandon(self, error: BookieUnavailableError) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        runs, self._runs = self._runs, {}
        self._adds.clear()
        for run in runs:
            run.tell(error)
        for calls in dict.fromkeys(self._calls.values()):
            calls.fail(error)
        self._calls.clear()

    # Answers.

    def _take_expected(self, data: bytes, at: int) -> int:
        """Take the answers to one run at once, as many as came in order and say OK."""
        added = wire3.read_added(data, at + SIZE.size)
        run = None if added is None else self._adds.get(added[0])
        if run is None:
            return at
        before = run.done
        count = run.bundle.matched(before, data, at)
        if count:
            del self._adds[run.expected]
            run.advance(count)
            self._go_on(run)
            bounds = run.bundle.bounds
            at += bounds[before + count] - bounds[before]
        return at

    def _go_on(self, run: _RunOfAdds) -> None:
        """Expect the next answer of a run, or tell that it has all."""
        if run.is_done:
            del self._runs[run]
            run.tell(None)
        else:
            self._adds[run.expected] = run

    def _run_of(self, transaction: int) -> _RunOfAdds | None:
        """Return the run that awaits an answer. Bookies answer adds of a ledger in order."""
        found = self._adds.get(transaction)
        if found is None:
            found = next((run for run in self._runs if run.awaits(transaction)), None)
        return found

    def _take(self, message: bytes) -> None:
        answer = wire3.read_answer(message)
        if answer.operation == Operation.ADD:
            self._take_added(answer)
            return
        calls = self._calls.pop(answer.transaction, None)
        if calls is not None:
            calls.take(answer)

    def _take_added(self, answer: BookieAnswer) -> None:
        run = self._run_of(answer.transaction)
        if run is None:
            return
        if answer.status != Status.OK:
            self._forget(run)
            run.tell(run.error(answer))
            return
        expected = run.expected
        run.take(answer)
        del self._adds[expected]
        self._go_on(run)

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
            if run in self._runs:
                self._forget(run)
                run.tell(self.unavailable(f"no answer within {self._timeout:g} s"))

    def _forget(self, run: _RunOfAdds) -> None:
        """Expect no answer to a run any more."""
        del self._adds[run.expected]
        del self._runs[run]
