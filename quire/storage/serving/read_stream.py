"""One connection for reads: a bookie answers questions in any order, each with a task.

A question is let in as a call over gRPC is: for this bookie, with its client's rights, and counted
among the reads. Its answer is written in parts as they are, without a copy, by turns with the
others of the connection.

Invariants: an answer counts among the gathered bytes until it is there, and among the unread ones
until it is written, with its own size. A client that takes nothing, or little, holds up only
itself. Each question has a place among the calls, so a peer asks no more than over gRPC; a
give-up is always heard. Each message is charged to its peer (message_turns.py).

Not here: the limits of all calls (limits.py), reads over gRPC (grpc_service.py).
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from functools import partial
from typing import Any, Final, Protocol

from quire.aio.tasks import Tasks
from quire.bookie import READ_ANSWER_BYTES_MAX, UseKind
from quire.errors import BookieBusyError, InvalidRequestError
from quire.requests import Trace
from quire.rights.calls import RPCS
from quire.run import FRAME_BYTES_MAX
from quire.storage.serving.limits import PEER, Reception
from quire.storage.serving.stream_account import NOWHERE, Origin
from quire.wire import bookie_pb2 as pb
from quire.wire.framed_reads import (
    REFUSAL,
    Question,
    decode_question,
    encode_answer,
    encode_failed,
)
from quire.wire.identity import ANONYMOUS, Identity
from quire.wire.reads import NoMessageError
from quire.wire.transport import EOF

READ: Final = RPCS["Read"]


def decode_reads(message: bytes) -> Question:
    """Take a client's message apart. Raises `InvalidRequestError`."""
    try:
        return decode_question(message)
    except NoMessageError as error:
        raise InvalidRequestError(f"a message of {len(message)} bytes: {error}") from error


def bytes_max_of(request: pb.ReadRequest) -> int:
    """Return how many bytes the answer to a request may have, but for a first entry."""
    return min(request.bytes_max, READ_ANSWER_BYTES_MAX)


async def look_up(
    reception: Reception, identity: Identity, request: pb.ReadRequest, trace: Trace, owner: str
) -> bytes:
    """Return the run that a peer asks for, if the peer may have it. Waits for its turn in
    `gathering`.

    Raises the bookie's errors, `WrongBookieError` and `BookieBusyError`; for a peer without the
    right or the key as `Reception.permit` and `Reception.check_reader`.
    """
    reception.expect(request.bookie)
    reception.refuse_when_draining()
    await _permit(reception, identity, request)
    # However few bytes are wanted: the first entry comes whole.
    async with reception.gathering.turn(owner, FRAME_BYTES_MAX):
        run = await _gather(reception, request, trace, owner)
        # Again: the ledger may have begun while the read waited, or the right may be gone.
        await _permit(reception, identity, request)
        return run


async def _permit(reception: Reception, identity: Identity, request: pb.ReadRequest) -> None:
    await reception.permit(identity, READ.action_of(request), request.ledger)
    reception.check_reader(identity, request)


async def _gather(reception: Reception, request: pb.ReadRequest, trace: Trace, owner: str) -> bytes:
    is_fence = request.HasField("fence_key")
    with reception.reads.take(owner):
        trace.accepted = reception.now()
        found = await reception.bookie.read(
            request.ledger,
            request.first,
            request.last,
            fence_key=request.fence_key if is_fence else None,
            bytes_max=bytes_max_of(request),
        )
        trace.worked = reception.now()
        kind = UseKind.RECOVERS if is_fence else UseKind.READS
        reception.uses.note(request.ledger, kind, PEER.get(), trace.worked)
        return found


class ReadContext(Protocol):
    """The bookie's end of one connection for reads."""

    async def read(self) -> Any:
        """Return the next `Question`, `EOF` after the last."""
        ...

    async def send(self, *parts: bytes) -> None:
        """Send a message in parts, waiting for space."""
        ...

    def end(self) -> None:
        """End the connection at once: the client takes nothing."""
        ...


class ReadStream:
    """One connection, from its first message to its end."""

    def __init__(
        self,
        reception: Reception,
        context: ReadContext,
        identity: Identity = ANONYMOUS,
        origin: Origin = NOWHERE,
    ) -> None:
        self._reception = reception
        self._context = context
        self._identity = identity
        self._origin = origin
        self._last = 0
        """The highest number of a question."""
        self._answering: dict[int, asyncio.Task[None]] = {}
        self._tasks = Tasks()
        self._writing = asyncio.Lock()
        self._untaken = reception.untaken(origin.owner, context.end)

    @property
    def runs_in_flight(self) -> int:
        """Questions without an answer: a service that ends waits for them."""
        return len(self._answering)

    async def serve(self) -> None:
        """Serve until the client ends the connection, or breaks its rules.

        Raises the errors of the context.
        """
        with self._reception.streaming(self), closing(self._untaken):
            try:
                await self._receive()
            except InvalidRequestError as error:
                async with self._writing:
                    refusal = self._reception.failure(error)
                    await self._context.send(*encode_failed(REFUSAL, refusal))
            finally:
                await self._tasks.stop()

    async def _receive(self) -> None:
        while (question := await self._context.read()) is not EOF:
            await self._reception.messages.wait(self._origin.owner)
            number, _, request = question
            if request is None:
                if not 0 < number <= self._last:
                    raise InvalidRequestError(f"read {number} was never asked")
                if (work := self._answering.get(number)) is not None:
                    work.cancel()
                continue
            if number <= self._last:
                raise InvalidRequestError(f"read {number} after {self._last}: numbers grow")
            self._last = number
            full = self._reception.take_call(self._origin.owner)
            if full is not None:
                busy = BookieBusyError(self._reception.bookie_id, full)
                await self._send(self._failed(number, busy))
                continue
            work = self._tasks.start(self._answer(question, request), f"read {request.ledger}")
            self._answering[number] = work
            work.add_done_callback(partial(self._answered, number))

    def _answered(self, number: int, _: object) -> None:
        del self._answering[number]
        self._reception.calls.give_back(self._origin.owner)
        self._reception.settled()

    async def _answer(self, question: Question, request: pb.ReadRequest) -> None:
        """Carry a question out, from its arrival to its answer."""
        call = ("Read", request.ledger, question.request_id, self._origin.peer)
        with self._reception.tracing(*call) as trace:
            try:
                run = await self._look_up(request, trace)
            except Exception as error:
                # Not sent here: the error holds entries that were read, and the client may wait.
                message = self._failed(question.number, error)
            else:
                await self._hand_over(question.number, run)
                return
            await self._send(message)

    async def _look_up(self, request: pb.ReadRequest, trace: Trace) -> bytes:
        """Return the run that is asked for, counted among the untaken bytes."""
        reception, identity, owner = self._reception, self._identity, self._origin.owner
        run = await look_up(reception, identity, request, trace, owner)
        assert run, "a read returns a frame at least"
        self._untaken.add(len(run))
        return run

    async def _hand_over(self, number: int, run: bytes) -> None:
        try:
            for pieces in encode_answer(number, run):
                if not await self._send(pieces):
                    return
                self._untaken.progressed()
        finally:
            self._untaken.remove(len(run))

    def _failed(self, number: int, error: Exception) -> tuple[bytes, ...]:
        """Return the answer that an error is."""
        return encode_failed(number, self._reception.failure(error))

    async def _send(self, pieces: tuple[bytes, ...]) -> bool:
        """Send a message; return whether that was possible. If not, the connection is over."""
        async with self._writing:
            try:
                await self._context.send(*pieces)
            except Exception:
                self._context.end()
                return False
        return True
