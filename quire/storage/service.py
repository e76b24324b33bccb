"""A bookie on the network: the gRPC service over any `Bookie`.

The service believes nothing it is sent: it checks for whom a call is, bounds what may be under
way, and turns whatever the bookie raises into an answer (quire/wire/codec.py). Runs of one stream
are started in order, each without waiting for the one before to be durable: that is
what fills the journal's groups. They are acknowledged in order, all that became durable in the
meantime by one message.

Not here: what a bookie does (node.py), and its life as a process (server.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Final, TypeAlias, TypeVar

from quire.bookie import READ_ANSWER_BYTES_MAX, Bookie
from quire.entry import BookieId
from quire.errors import (
    BookieBusyError,
    BookieUnavailableError,
    InvalidRequestError,
    WrongBookieError,
)
from quire.wire import bookie_pb2 as pb
from quire.wire.codec import (
    encode_failure,
    encode_info,
    encode_ranges,
    encode_tail,
    is_internal,
)
from quire.wire.reads import encode_parts
from quire.wire.transport import (
    EOF,
    SENT_RUN_BYTES_MAX,
    ServerContext,
    add_service,
    bind,
    open_server,
)

_Unary: TypeAlias = "Callable[[BookieService, Any], Awaitable[ReplyT]]"
_Handler: TypeAlias = "Callable[[BookieService, Any, ServerContext], Awaitable[ReplyT]]"
ReplyT = TypeVar("ReplyT", pb.TailReply, pb.WriteLacReply, pb.ListEntriesReply, pb.InfoReply)

_log = logging.getLogger(__name__)

WAIT_SECONDS_MAX: Final = 600.0
"""Longest time a long poll is held."""


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """What may be under way at the same time. Runs wait for room; reads and waits are told BUSY."""

    runs_per_stream: int = 256
    bytes_per_stream: int = 4 * SENT_RUN_BYTES_MAX
    reads: int = 256
    waits: int = 8192


def _answers(reply: type[ReplyT]) -> Callable[[_Unary[ReplyT]], _Handler[ReplyT]]:
    """Make a unary handler of a method: check for whom the call is, answer with what it raises,
    and be waited for.
    """

    def decorate(method: _Unary[ReplyT]) -> _Handler[ReplyT]:
        @wraps(method)
        async def handler(self: BookieService, request: Any, _: ServerContext) -> ReplyT:
            with self.using_the_bookie():
                try:
                    self.expect(request.bookie)
                    self.refuse_when_draining()
                    return await method(self, request)
                except Exception as error:
                    return reply(failure=self.failure(error))

        return handler

    return decorate


class BookieService:
    """The servicer of `quire.v1.Bookie` over any bookie."""

    def __init__(
        self, bookie: Bookie, bookie_id: BookieId, limits: ServiceLimits | None = None
    ) -> None:
        self.bookie = bookie
        self.bookie_id = bookie_id
        self.limits = limits or ServiceLimits()
        self._draining = False
        self._calls = 0
        """Under way, but for streams of runs; reads and long polls are among them."""
        self._reads = 0
        self._waits = 0
        self._streams: list[_AddStream] = []
        self._settled = asyncio.Event()

    async def drain(self) -> None:
        """Refuse runs and calls from now on; return when those under way have been answered.

        Long polls are not waited for. Cancelling leaves the service refusing.
        """
        self._draining = True
        while self._calls > self._waits or any(stream.runs_in_flight for stream in self._streams):
            self._settled.clear()
            await self._settled.wait()

    async def ended(self) -> None:
        """Return when no call uses the bookie any more; for after the server has stopped."""
        while self._streams or self._calls:
            self._settled.clear()
            await self._settled.wait()

    @contextmanager
    def using_the_bookie(self) -> Iterator[None]:
        """What a call does in the block is waited for by `drain` and `ended`."""
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            self.settled()

    def settled(self) -> None:
        """Something that `drain` or `ended` waits for may have come to its end."""
        self._settled.set()

    def expect(self, bookie: BookieId) -> None:
        """Raise `WrongBookieError` for a call that is meant for another bookie."""
        if bookie != self.bookie_id:
            raise WrongBookieError("the server", f"bookie {bookie}", f"bookie {self.bookie_id}")

    def refuse_when_draining(self) -> None:
        """Raise `BookieUnavailableError` once `drain` was called."""
        if self._draining:
            raise BookieUnavailableError(self.bookie_id, "it is shutting down")

    def failure(self, error: Exception) -> pb.Failure:
        """Turn an error into an answer; one that clients may not see in detail goes to the log."""
        failure = encode_failure(error, self.bookie_id)
        if is_internal(failure):
            _log.error("bookie %s met an internal error", self.bookie_id, exc_info=error)
        return failure

    async def Add(self, _: object, context: ServerContext) -> None:  # noqa: N802
        stream = _AddStream(self, context)
        self._streams.append(stream)
        try:
            await stream.serve()
        finally:
            self._streams.remove(stream)
            self.settled()

    async def Read(self, request: pb.ReadRequest, context: ServerContext) -> None:  # noqa: N802
        with self.using_the_bookie():
            self._reads += 1
            try:
                for reply in await self._read(request):
                    await context.write(reply)
            finally:
                self._reads -= 1

    async def _read(self, request: pb.ReadRequest) -> Iterable[bytes]:
        try:
            self.expect(request.bookie)
            self.refuse_when_draining()
            if self._reads > self.limits.reads:
                raise BookieBusyError(self.bookie_id, f"{self.limits.reads} reads are under way")
            run = await self.bookie.read(
                request.ledger,
                request.first,
                request.last,
                fence_key=request.fence_key if request.HasField("fence_key") else None,
                bytes_max=min(request.bytes_max, READ_ANSWER_BYTES_MAX),
            )
        except Exception as error:
            return [pb.ReadReply(failure=self.failure(error)).SerializeToString()]
        return encode_parts(run)

    @_answers(pb.TailReply)
    async def ReadTail(self, request: pb.ReadTailRequest) -> pb.TailReply:  # noqa: N802
        fence_key = request.fence_key if request.HasField("fence_key") else None
        return encode_tail(await self.bookie.read_tail(request.ledger, fence_key=fence_key))

    @_answers(pb.TailReply)
    async def WaitTail(self, request: pb.WaitTailRequest) -> pb.TailReply:  # noqa: N802
        if self._waits >= self.limits.waits:
            raise BookieBusyError(self.bookie_id, f"{self.limits.waits} reads wait for entries")
        timeout = min(request.timeout_ms / 1000, WAIT_SECONDS_MAX)
        self._waits += 1
        try:
            tail = await self.bookie.wait_tail(request.ledger, request.above, timeout)
        finally:
            self._waits -= 1
        return encode_tail(tail)

    @_answers(pb.WriteLacReply)
    async def WriteLac(self, request: pb.WriteLacRequest) -> pb.WriteLacReply:  # noqa: N802
        await self.bookie.write_lac(request.ledger, request.key, request.packet)
        return pb.WriteLacReply()

    @_answers(pb.ListEntriesReply)
    async def Sync(self, request: pb.SyncRequest) -> pb.ListEntriesReply:  # noqa: N802
        bookie = self.bookie
        ranges = await bookie.sync(request.ledger, request.key, request.first, request.last)
        return encode_ranges(ranges)

    @_answers(pb.ListEntriesReply)
    async def ListEntries(self, request: pb.ListEntriesRequest) -> pb.ListEntriesReply:  # noqa: N802
        return encode_ranges(await self.bookie.list_entries(request.ledger))

    @_answers(pb.InfoReply)
    async def Info(self, request: pb.InfoRequest) -> pb.InfoReply:  # noqa: N802
        return encode_info(await self.bookie.info())


class _Slot:
    """One run between its arrival and its acknowledgement."""

    __slots__ = ("answer", "done", "failure", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.done = False
        self.failure: pb.Failure | None = None
        self.answer: asyncio.Future[None] | None = None


class _AddStream:
    """One stream of runs: starts each in order, acknowledges them in order.

    Numbers grow by one per run. Runs up to `_acknowledged` have their answer sent; the answer of
    those below the first of `_slots` is on its way; `_received` is the number of the last slot.
    """

    def __init__(self, service: BookieService, context: ServerContext) -> None:
        self._service = service
        self._context = context
        self._slots: deque[_Slot] = deque()
        self._received = 0
        self._acknowledged = 0
        self._bytes = 0
        self._refusal: pb.Failure | None = None
        self._ready = asyncio.Event()
        self._room = asyncio.Event()

    @property
    def runs_in_flight(self) -> int:
        return self._received - self._acknowledged

    async def serve(self) -> None:
        """Serve until the client ends the stream, breaks it, or breaks the rules of its numbers."""
        acknowledging = asyncio.create_task(self._acknowledge())
        acknowledging.add_done_callback(lambda _: self._room.set())
        try:
            await self._receive(acknowledging)
            while self.runs_in_flight and not acknowledging.done():
                await self._wait_for_room()
        except (InvalidRequestError, WrongBookieError) as error:
            self._refusal = self._service.failure(error)
            self._ready.set()
            await asyncio.gather(acknowledging, return_exceptions=True)
        finally:
            answers = [slot.answer for slot in self._slots if slot.answer is not None]
            for future in (acknowledging, *answers):
                future.cancel()
            await asyncio.gather(acknowledging, *answers, return_exceptions=True)

    async def _receive(self, acknowledging: asyncio.Task[None]) -> None:
        while (request := await self._context.read()) is not EOF:
            if self._received == 0:
                self._service.expect(request.bookie)
            if request.first != self._received + 1 or not request.runs:
                raise InvalidRequestError(
                    f"message with {len(request.runs)} runs starts at number {request.first}, "
                    f"not {self._received + 1}"
                )
            for run in request.runs:
                while not self._has_room(len(run.run)):
                    await self._wait_for_room()
                    if acknowledging.done():
                        return
                self._start(run)

    def _has_room(self, size: int) -> bool:
        limits = self._service.limits
        return self.runs_in_flight < limits.runs_per_stream and (
            not self._slots or self._bytes + size <= limits.bytes_per_stream
        )

    async def _wait_for_room(self) -> None:
        self._room.clear()
        await self._room.wait()

    def _start(self, run: pb.AddRun) -> None:
        slot = _Slot(len(run.run))
        self._slots.append(slot)
        self._bytes += slot.size
        self._received += 1
        try:
            self._service.refuse_when_draining()
            adding = self._service.bookie.add(
                run.ledger, run.key, run.run, recovery=run.recovery, deferred=run.deferred
            )
        except Exception as error:
            self._finish(slot, error)
        else:
            slot.answer = asyncio.ensure_future(adding)
            slot.answer.add_done_callback(partial(self._answered, slot))

    def _answered(self, slot: _Slot, answer: asyncio.Future[None]) -> None:
        if not answer.cancelled():
            self._finish(slot, answer.exception())

    def _finish(self, slot: _Slot, error: BaseException | None) -> None:
        if isinstance(error, Exception):
            slot.failure = self._service.failure(error)
        slot.done = True
        if self._slots and slot is self._slots[0]:
            self._ready.set()

    async def _acknowledge(self) -> None:
        while self._refusal is None:
            await self._ready.wait()
            self._ready.clear()
            while self._slots and self._slots[0].done:
                reply = self._collect()
                await self._context.write(reply)
                self._acknowledged = reply.settled
                self._room.set()
                self._service.settled()
        await self._context.write(pb.AddReply(refusal=self._refusal))

    def _collect(self) -> pb.AddReply:
        """Take the settled runs off the front and return the reply that answers all of them."""
        number = self._received - len(self._slots)
        reply = pb.AddReply()
        while self._slots and self._slots[0].done:
            slot = self._slots.popleft()
            self._bytes -= slot.size
            number += 1
            if slot.failure is not None:
                reply.failures.append(pb.AddFailure(number=number, failure=slot.failure))
        reply.settled = number
        return reply


@asynccontextmanager
async def serve_bookie(
    bookie: Bookie,
    bookie_id: BookieId,
    listen: str = "127.0.0.1:0",
    *,
    limits: ServiceLimits | None = None,
    drain_seconds: float = 5.0,
) -> AsyncIterator[str]:
    """Serve a bookie on host:port while the block runs; yields the address with the real port.

    At the end of the block new work is refused, what is under way may finish for `drain_seconds`,
    and then every call is broken off. A cancelled block is drained as well. The bookie stays
    open: it is its owner's to close. Raises `ConfigurationError` when the address cannot be used.
    """
    server = open_server()
    address = bind(server, listen)
    service = BookieService(bookie, bookie_id, limits)
    add_service(server, service)
    await server.start()
    try:
        yield address
    finally:
        try:
            async with asyncio.timeout(drain_seconds):
                await service.drain()
        except TimeoutError:
            _log.warning("bookie %s: calls still under way are broken off", bookie_id)
        finally:
            await server.stop(None)
            await service.ended()
