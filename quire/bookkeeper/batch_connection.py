"""One connection to a bookie of Apache's, over the second protocol, for batch reads alone.

The third protocol has no batch reads, and a connection speaks one protocol: the first message that
the third protocol cannot read makes it one of the second, permanently. START_TLS alone comes before
that, as a message of the third protocol.

The answer to a batch read has the request's id, so a late one is never taken for another.
"""

from __future__ import annotations

import asyncio
from typing import Final

from quire.bookkeeper import wire2
from quire.bookkeeper.message_stream import Endpoint, MessageStream
from quire.bookkeeper.protobuf import MalformedError
from quire.bookkeeper.wire2 import FixedAnswer, Opcode
from quire.entry import EntryId, LedgerId
from quire.errors import BookieUnavailableError

COUNT_MAX: Final = 2**31 - 1
"""A request's count of entries is a signed number of 32 bits."""


class BatchConnection(MessageStream):
    """See the module. Opened at once; needs a running loop."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._last_request = 0
        self._asked: dict[int, asyncio.Future[FixedAnswer]] = {}
        self.has_answered = False
        """Whether a batch read was ever answered: the bookie knows them."""
        super().__init__(endpoint)

    async def read(
        self, ledger: LedgerId, first: EntryId, count: int, bytes_max: int
    ) -> FixedAnswer:
        """Return the answer to a batch read, whatever its status.

        Raises `BookieUnavailableError` when the connection is over, or brings no answer in time.
        """
        self._check()
        self._last_request = number = self._last_request + 1
        answer: asyncio.Future[FixedAnswer] = self._loop.create_future()
        self._asked[number] = answer
        alarm = self._loop.call_later(self._timeout, self._expire, answer, self._loop.time())
        self._send([wire2.batch_read(number, ledger, first, min(count, COUNT_MAX), bytes_max)])
        try:
            return await answer
        finally:
            self._asked.pop(number, None)
            if answer.done() and not answer.cancelled():
                answer.exception()  # seen: the connection may have ended in the same turn
                alarm.cancel()

    def _expire(self, answer: asyncio.Future[FixedAnswer], asked_at: float) -> None:
        """Give up an answer. Callers have time limits of their own, and a connection that hangs has
        to be noticed all the same.
        """
        self._look_whether_gone(asked_at)
        if not answer.done():
            answer.set_exception(self.unavailable(f"no answer within {self._timeout:g} s"))

    def _take(self, message: bytes) -> None:
        answer = wire2.read_answer(message)
        if answer.opcode is not Opcode.BATCH_READ:
            raise MalformedError(f"an answer to {answer.opcode.name}, which was not asked")
        self.has_answered = True
        asking = self._asked.pop(answer.request, None)
        if asking is not None and not asking.done():
            asking.set_result(answer)

    def _abandon(self, error: BookieUnavailableError) -> None:
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(error)
        self._asked.clear()
