"""One connection to a bookie of Apache's, over the third protocol.

Requests are sent in the order of the calls, all of one turn of the loop in one write. Answers
come in any order and are matched by transaction. A connection is opened once: requests
made before it stands wait, and when it breaks every call under way fails with the reason. A bookie
resets a connection for a message that is too large, so one bad request would cost all others their
answers; such requests are refused here.

A run has one future for all its frames. A call that gets no answer in time breaks the connection if
that brought nothing at all since: its other end is gone, or hangs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeAlias

from quire.aio.tasks import Tasks
from quire.aio.timing import time_limit
from quire.bookkeeper import wire3
from quire.bookkeeper.protobuf import MalformedError
from quire.bookkeeper.shared_adds import PreparedRun, Transactions
from quire.bookkeeper.status import Status
from quire.bookkeeper.tls import ClientTls
from quire.bookkeeper.wire3 import SIZE, BookieAnswer
from quire.entry import BookieId
from quire.errors import BookieUnavailableError, ClientRefusedError, QuireError

CONNECT_SECONDS: Final = 5.0

Piece: TypeAlias = bytes | memoryview
Make: TypeAlias = Callable[[int], bytes]
"""Gives a request for a transaction."""

OpenTransport: TypeAlias = Callable[[asyncio.Protocol], Coroutine[Any, Any, asyncio.Transport]]
"""Connects a protocol to the bookie. Raises `OSError`."""


def to_address(address: str) -> OpenTransport:
    """Return what connects to host:port over TCP."""
    host, _, port = address.rpartition(":")

    async def connect(protocol: asyncio.Protocol) -> asyncio.Transport:
        loop = asyncio.get_running_loop()
        made, _ = await loop.create_connection(lambda: protocol, host.strip("[]"), int(port))
        return made

    return connect


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


class BookieConnection(asyncio.Protocol):
    """See the module. Opened at once; needs a running loop."""

    def __init__(
        self,
        bookie: BookieId,
        connect: OpenTransport,
        timeout: float,
        tls: ClientTls | None = None,
        server_name: str | None = None,
        transactions: Transactions | None = None,
    ) -> None:
        """`transactions` are shared by all connections of a client."""
        self._bookie = bookie
        self._timeout = timeout
        self._tls = tls
        self._server_name = server_name
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self.is_open = False
        """Whether it ever stood."""
        self.over: str | None = None
        """Why the connection is over, None while it is not."""
        self._outbox: list[Piece] = []
        self._flushing: asyncio.Handle | None = None
        self._buffer = bytearray()
        """The beginning of a message that is not whole."""
        self._wanted = SIZE.size
        """Bytes that the buffer needs before it is looked at again."""
        self._heard_at = self._loop.time()
        self._transactions = transactions or Transactions()
        self._calls: dict[int, _Calls] = {}
        self._adds: dict[int, _RunOfAdds] = {}
        self._runs: dict[_RunOfAdds, None] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._tasks = Tasks()
        self._tasks.start(self._open(connect), f"connection to bookie {bookie}")

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

    def _check(self) -> None:
        if self.over is not None:
            raise self.unavailable(self.over)

    def unavailable(self, reason: str) -> BookieUnavailableError:
        """Return the error of a bookie that gave no answer."""
        return BookieUnavailableError(self._bookie, reason)

    async def close(self) -> None:
        """Break all calls under way. Harmless when called again."""
        self.end("its link was closed")
        await self._tasks.stop()

    def end(self, reason: str) -> None:
        """Fail everything under way, and let nothing else begin."""
        if self.over is not None:
            return
        self.over = reason
        if self._transport is not None:
            self._transport.abort()
        if self._alarm is not None:
            self._alarm.cancel()
        self._outbox.clear()
        self._tasks.cancel_others()
        error = self.unavailable(reason)
        for run in list(self._runs):
            run.fail(error)
        for calls in dict.fromkeys(self._calls.values()):
            calls.fail(error)
        self._calls.clear()
        self._adds.clear()

    # Opening.

    async def _open(self, connect: OpenTransport) -> None:
        try:
            async with time_limit(CONNECT_SECONDS):
                self._transport = await connect(self)
                if self._tls is not None:
                    await self._start_tls(self._transport, self._tls)
        except TimeoutError:
            self.end(f"no connection within {CONNECT_SECONDS:g} s")
        except (OSError, EOFError) as error:
            self.end(str(error) or type(error).__name__)
        except QuireError as error:
            self.end(str(error))
        else:
            self.is_open = True
            self._flush()

    async def _start_tls(self, plain: asyncio.Transport, tls: ClientTls) -> None:
        """Ask for TLS, and speak it. A bookie that refuses is not spoken to in plain text."""
        transaction = self._transactions.take(1)
        calls = self._calls[transaction] = _Calls(transaction, 1, self.unavailable("no answer"))
        plain.write(wire3.start_tls(transaction))
        await calls.all
        (answer,) = calls.answers
        if isinstance(answer, QuireError):
            raise answer
        if answer.status != Status.OK:
            raise ClientRefusedError(
                self._bookie, "it does not speak TLS, and tls=yes forbids anything else"
            )
        self._transport = await tls.over(plain, self, self._server_name or "")

    # Sending.

    def _send(self, pieces: Sequence[Piece]) -> None:
        self._outbox += pieces
        if self.is_open and self._flushing is None:
            self._flushing = self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = None
        if self._outbox and self._transport is not None and self.over is None:
            pieces, self._outbox = self._outbox, []
            self._transport.writelines(pieces)

    # Reports of the transport.

    def connection_lost(self, error: Exception | None) -> None:
        self.end("it closed the connection" if error is None else str(error))

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._wanted:
                return
            data = bytes(self._buffer)
        try:
            at = self._take_whole(data)
        except MalformedError as error:
            self.end(f"it does not speak BookKeeper's protocol: {error}")
            at = len(data)
        self._buffer = bytearray(data[at:])

    def _take_whole(self, data: bytes) -> int:
        """Take the messages that are whole; return where the rest begins."""
        at, end = 0, len(data)
        while at + SIZE.size <= end:
            (size,) = SIZE.unpack_from(data, at)
            if size > wire3.MESSAGE_BYTES_MAX:
                raise MalformedError(f"a message of {size} bytes")
            after = at + SIZE.size + size
            if after > end:
                self._wanted = after - at
                return at
            self._take(data[at + SIZE.size : after])
            at = after
        self._wanted = SIZE.size
        return at

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

    def _look_whether_gone(self, since: float) -> None:
        if self._heard_at <= since:
            self.end(f"it sent nothing for {self._loop.time() - since:.1f} s")
