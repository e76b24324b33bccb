"""A stream of appends: messages in, and answers in their order.

Invariants:
  - Messages are queued in their order, and the first failure ends the stream: no later message
    is queued. So a producer that goes on after its last answer has neither gaps nor repetitions.
  - Messages under way are queued with one writer of the log. A message for its next writer waits
    until those before it are certain: else it would be written after one of them was lost.
  - A message is read only when there is space for it, so a client that is too quick waits.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple

from quire.aio.tasks import Tasks, first_of
from quire.aio.timing import time_limit
from quire.errors import InvalidRequestError, QuireError
from quire.gateway.answers import GatewayError, NotReadyError, StalledError
from quire.gateway.quotas import Direction
from quire.gateway.rpc import logs_pb2 as pb
from quire.gateway.rpc.caller import Caller
from quire.gateway.rpc.records import reply_of, submission_of
from quire.gateway.space import Space
from quire.log.leader.log import Log
from quire.log.records.position import Appended
from quire.log.records.producers import WINDOW
from quire.rights.calls import LOGS
from quire.wire.transport import EOF

PIPELINED_MAX: Final = WINDOW
"""Messages of a stream under way: as many as a log remembers of a producer, so that each of them
can be repeated."""

IDLE_SECONDS: Final = 600.0
"""A stream without a message for so long ends."""


class _Queued(NamedTuple):
    """A message that is under way, with its size."""

    places: asyncio.Future[list[Appended]]
    size: int


class AppendStream:
    """One call of `Append`.

    Args:
        caller: the call and its caller.
        space: bytes of all messages under way.
    """

    def __init__(self, caller: Caller, space: Space) -> None:
        self._caller = caller
        self._space = space
        self._name = ""
        self._log: Log | None = None
        self._queue: asyncio.Queue[_Queued | QuireError | GatewayError | None] = asyncio.Queue()
        self._places = asyncio.Semaphore(PIPELINED_MAX)
        self._under_way = 0
        self._settled = asyncio.Event()
        self._held = 0
        self._ended = asyncio.Event()

    def end(self) -> None:
        """Take no further message; those under way are still answered."""
        self._ended.set()

    async def serve(self) -> None:
        """Answer messages until the client ends the stream. Raises the first error."""
        self._caller.check_quota(Direction.APPEND)
        tasks = Tasks()
        answering = tasks.start(self._answer(), "answers a stream of appends")
        try:
            await first_of(self._take_all(), asyncio.wait([answering]), self._ended.wait())
            if self._ended.is_set():
                self._queue.put_nowait(NotReadyError(self._name, "this gateway ends"))
            await answering
        finally:
            await tasks.stop()
            self._space.give_back(self._held)

    async def _take_all(self) -> None:
        """Queue the messages, and then their end or the error that ended them."""
        try:
            while (message := await self._next()) is not EOF:
                await self._take(message)
        except (QuireError, GatewayError) as error:
            self._queue.put_nowait(error)
        else:
            self._queue.put_nowait(None)

    async def _next(self) -> Any:
        await self._places.acquire()
        try:
            async with time_limit(IDLE_SECONDS):
                return await self._caller.context.read()
        except TimeoutError:
            raise StalledError(f"no message has come for {IDLE_SECONDS:g} s") from None

    async def _take(self, data: bytes) -> None:
        await self._space.take(len(data))
        self._held += len(data)
        message = self._caller.decode(pb.AppendRequest.FromString, data)
        name = message.log or self._name
        if self._name not in ("", name):
            raise InvalidRequestError(
                f"a stream appends to one log, {self._name!r}: open another stream for {name!r}"
            )
        self._name = name
        batch = submission_of(message)
        self._caller.check(LOGS["Append"], name)
        async with self._caller.gateway.owners.writer(name) as log:
            if log is not self._log:
                await self._until_settled()
                self._log = log
            places = await log.submit_many(
                batch.records,
                expected_offset=batch.expected_offset,
                producer_sequence=batch.producer_sequence,
                txid=batch.txid,
            )
        places.add_done_callback(_look)
        self._under_way += 1
        self._queue.put_nowait(_Queued(places, len(data)))
        await self._caller.pace(Direction.APPEND, len(data), len(batch.records))

    async def _until_settled(self) -> None:
        """Wait until every message before is certain; the failure of one ends the stream."""
        while self._under_way:
            self._settled.clear()
            await self._settled.wait()

    async def _answer(self) -> None:
        while (found := await self._queue.get()) is not None:
            if not isinstance(found, _Queued):
                raise found
            await self._caller.write(reply_of(await found.places))
            self._held -= found.size
            self._space.give_back(found.size)
            self._places.release()
            self._under_way -= 1
            self._settled.set()


def _look(places: asyncio.Future[list[Appended]]) -> None:
    """Take notice of an error: the stream may have ended with an earlier one."""
    if not places.cancelled():
        places.exception()
