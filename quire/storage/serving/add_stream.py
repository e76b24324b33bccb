"""One stream of runs into a bookie, however its messages travel.

Runs are started in order, each without waiting for the one before to be durable: that is
what fills the journal's groups. The runs of a message are offered to the bookie together, as far as
they have space; a run that the bookie does not take in that step is started alone, and the rest is
offered again. Runs are acknowledged in order, all that became durable in the
meantime by one message. An explicit LAC takes the place of a run: a call of its own would cost its
two sides more than the entry that it confirms.

Here is what a stream waits for; its steps are in stream_account.py. Not here: transports
(grpc_service.py, run_listener.py), and the limits of all calls (limits.py).
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Any, Protocol

from quire.errors import InvalidRequestError, QuireError, WrongBookieError
from quire.rights.calls import RUN
from quire.storage.serving.limits import Reception
from quire.storage.serving.stream_account import NOWHERE, Origin, RunSlot, StreamAccount
from quire.storage.serving.uses import StreamUses
from quire.wire import bookie_pb2 as pb
from quire.wire.adds import decode_request
from quire.wire.identity import ANONYMOUS, Identity
from quire.wire.reads import NoMessageError
from quire.wire.transport import EOF


def decode_runs(message: bytes) -> pb.AddRequest:
    """Take a message of a stream apart. Raises `InvalidRequestError`."""
    try:
        return decode_request(message)
    except NoMessageError as error:
        raise InvalidRequestError(f"a message of {len(message)} bytes: {error}") from error


class RunContext(Protocol):
    """The bookie's end of one stream."""

    async def read(self) -> Any:
        """Return the next `pb.AddRequest`, `EOF` after the last."""
        ...

    async def write(self, message: pb.AddReply, /) -> None:
        """Send a message, waiting for space."""
        ...


class AddStream:
    """One stream of runs: starts each in order, acknowledges them in order."""

    def __init__(
        self,
        reception: Reception,
        context: RunContext,
        identity: Identity = ANONYMOUS,
        origin: Origin = NOWHERE,
    ) -> None:
        self._reception = reception
        self._origin = origin
        self._uses = StreamUses(reception.uses, origin.peer)
        self._context = context
        self._identity = identity
        self._account = StreamAccount(reception, identity, origin, self._uses)
        self._pending = reception.pending
        self._refusal: pb.Failure | None = None
        self._room = asyncio.Event()

    @property
    def runs_in_flight(self) -> int:
        return self._account.received - self._account.acknowledged

    async def serve(self) -> None:
        """Serve until the client ends the stream, breaks it, or breaks the rules of its numbers."""
        with self._reception.streaming(self), closing(self._uses):
            await self._serve()

    async def _serve(self) -> None:
        acknowledging = asyncio.create_task(self._acknowledge())
        acknowledging.add_done_callback(lambda _: self._room.set())
        try:
            await self._receive(acknowledging)
            while self.runs_in_flight and not acknowledging.done():
                await self._wait_for_room()
        except (InvalidRequestError, WrongBookieError) as error:
            self._refusal = self._reception.failure(error)
            self._account.ready.set()
            await asyncio.gather(acknowledging, return_exceptions=True)
        finally:
            answers = self._account.end()
            for future in (acknowledging, *answers):
                future.cancel()
            self._account.discharge(self._account.charged)
            await asyncio.gather(acknowledging, *answers, return_exceptions=True)

    async def _receive(self, acknowledging: asyncio.Task[None]) -> None:
        while (request := await self._context.read()) is not EOF:
            for wait in self._account.take_in(request, acknowledging):
                if wait is None:
                    return
                if wait.has_space:
                    wait.denial = await self._denial(wait.run)
                elif not await self._space(wait.size, wait.cost, acknowledging):
                    return

    async def _space(self, size: int, cost: int, acknowledging: asyncio.Task[None]) -> bool:
        """Wait until a run has room in the stream and its cost in its peer's share. Return False
        when the stream has ended meanwhile, and nothing is charged.
        """
        while not self._account.has_room(size):
            await self._wait_for_room()
            if acknowledging.done():
                return False
        await self._pending.wait(self._origin.owner, cost)
        return True

    async def _wait_for_room(self) -> None:
        self._room.clear()
        await self._room.wait()

    async def _denial(self, run: pb.AddRun) -> QuireError | None:
        """Return why the peer may not send a run. Only the first of a ledger may take a while."""
        try:
            await self._reception.permit(self._identity, RUN.action_of(run), run.ledger)
        except QuireError as error:
            return error
        return None

    async def _acknowledge(self) -> None:
        account = self._account
        while self._refusal is None:
            await account.ready.wait()
            account.ready.clear()
            while account.is_settled:
                settled: list[RunSlot] = []
                reply = account.collect(settled)
                await self._context.write(reply)
                account.tell_slow(settled, reply.settled)
                account.acknowledged = reply.settled
                self._room.set()
                self._reception.settled()
        await self._context.write(pb.AddReply(refusal=self._refusal))
