"""The runs on their way to one bookie: a stream, from its first run to its break.

`submit` puts a run into the stream's queue at once and gives it a number; one task sends all queued
runs as one message when the message before has left, another answers the waiting adds by the
numbers that come back. There is no timer between them: a message has the runs that arrived while
the previous message was under way.

A stream breaks as a whole. When the connection is lost, or the oldest run got no answer in time,
every run without an answer fails with `BookieUnavailableError`. Nothing is sent twice here: whether
to send again is the decision of ledger code. Not here: the account of queued and unanswered runs
(run_account.py), and how messages travel (wire/run_calls.py).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from quire.aio.answer import resolve
from quire.entry import BookieId
from quire.errors import (
    BookieBusyError,
    BookieUnavailableError,
    ClientRefusedError,
    QuireError,
    UntrustedBookieError,
)
from quire.ledger.run_account import RunAccount, StreamName
from quire.wire.adds import EncodedRun
from quire.wire.codec import decode_failure
from quire.wire.hello import Refusal
from quire.wire.reads import NoMessageError
from quire.wire.run_calls import (
    RunCall,
    StreamOverError,
    StreamRefusedError,
    StreamUntrustedError,
)
from quire.wire.transport import BATCH_BYTES_MAX

QUEUED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of runs that may wait to be sent; beyond it an add is refused with `BookieBusyError`."""

NO_MESSAGE: Final = "its answer is not a message"


class RunStream:
    """One stream of adds, from its first run to its break. Never mended: a new one takes its
    place.

    A stream `after` another, which gets no more runs, sends its first run once all runs of the
    other are settled: the order stays, whatever connections they take. If the other loses runs,
    this one breaks too, as if they were one.
    """

    def __init__(
        self,
        call: RunCall,
        bookie: BookieId,
        timeout: float,
        after: RunStream | None = None,
        name: StreamName | None = None,
    ) -> None:
        """Without a name, slow runs are not logged."""
        self.broken: QuireError | None = None
        self._after = after
        self._has_lost = False
        """Whether it broke with runs under way."""
        self._call = call
        self._bookie = bookie
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._account = RunAccount(
            *(bookie, timeout, self._be_overdue, name),
            queued_max=QUEUED_BYTES_MAX,
            message_max=BATCH_BYTES_MAX,
        )
        self.send: Final = self._account.send
        """See `RunAccount.send`. No call stands between: it would be one more for each run."""
        self._sending = asyncio.create_task(self._send())
        self._receiving = asyncio.create_task(self._receive())

    @property
    def ended(self) -> bool:
        return self._sending.done() and self._receiving.done()

    @property
    def end(self) -> float | None:
        """When the bookie's certificate ends, as the connection was told."""
        return self._call.end

    def submit(self, encoded: EncodedRun) -> asyncio.Future[None]:
        """Queue a run after all others; the future resolves when it is durable, or fails. The
        future of an explicit LAC resolves when the bookie has noted it.
        """
        future: asyncio.Future[None] = self._loop.create_future()
        self.send(encoded, partial(resolve, future))
        return future

    async def _settled(self) -> None:
        """Return when no run is under way."""
        while (drained := self._account.drained()) is not None:
            await drained

    async def _follow(self, before: RunStream) -> None:
        """Wait for the end of the stream before this one."""
        await before._settled()
        if before._has_lost and before.broken is not None:
            self._break(before.broken)
            return
        await before.close()

    async def _send(self) -> None:
        before, self._after = self._after, None
        if before is not None:
            await self._follow(before)
        account = self._account
        try:
            while True:
                await account.queued.wait()
                account.queued.clear()
                while account.queue:
                    await self._call.write(*account.next_message())
        except StreamOverError:
            pass  # reading it tells why

    async def _receive(self) -> None:
        reason = "it closed the connection"
        try:
            while (reply := await self._call.read()) is not None:
                if reply.HasField("refusal"):
                    self._break(decode_failure(reply.refusal))
                    return
                self._account.settle(reply)
        except StreamRefusedError as error:
            self._break(_refused(self._bookie, error.refusal))
        except StreamUntrustedError as error:
            self._break(UntrustedBookieError(self._bookie, str(error)))
        except NoMessageError as error:
            reason = f"{NO_MESSAGE}: {error}"
        except StreamOverError as error:
            reason = str(error)
        except asyncio.CancelledError:
            reason = "the connection was closed"
            raise
        finally:
            self._break(BookieUnavailableError(self._bookie, reason))

    def _be_overdue(self) -> None:
        self._break(BookieUnavailableError(self._bookie, f"no answer within {self._timeout:g} s"))

    def _break(self, error: QuireError) -> None:
        """Fail whatever waits and end both tasks. The first reason given stays."""
        if self.broken is not None:
            return
        self.broken = error
        lost = self._account.lose(str(error))
        self._has_lost = bool(lost)
        self._call.cancel()
        self._sending.cancel()
        self._account.fail(lost, error)

    async def close(self) -> None:
        """Break the stream and return when its tasks have ended."""
        self._break(BookieUnavailableError(self._bookie, "its stub was closed"))
        self._receiving.cancel()
        await asyncio.gather(self._sending, self._receiving, return_exceptions=True)


def _refused(bookie: BookieId, refusal: Refusal) -> QuireError:
    """Return the error of a client that a bookie does not serve.

    A refusal that will pass is a busy bookie. Any other ends the writer: the other bookies would
    refuse this program too, and a change of the ensemble would help nothing.
    """
    if refusal.is_passing:
        return BookieBusyError(bookie, refusal.reason)
    return ClientRefusedError(bookie, refusal.reason)
