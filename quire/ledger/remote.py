"""A bookie far away: the port over gRPC.

All adds of one `RemoteBookie` share one stream, which keeps them in order. `add` puts its run
into the stream's queue at once and waits for a number; one task sends whatever is queued as one
message when the message before has left, another resolves the waiting adds by the numbers that
come back. There is no timer between them: a message is what arrived while the previous one was
under way.

A stream breaks as a whole. When the connection is lost, or the oldest run got no answer in time,
every run without an answer fails with `BookieUnavailableError` and the next add opens a new
stream. Nothing is sent twice here: whether to send again is the decision of ledger code.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from quire.bookie import READ_BYTES_MAX, BookieAddress, BookieInfo, LedgerTail, refused
from quire.entry import BookieId, EntryId, LedgerId
from quire.errors import BookieBusyError, BookieUnavailableError, InvalidRequestError, QuireError
from quire.wire import adds, reads
from quire.wire import bookie_pb2 as pb
from quire.wire import bookie_pb2_grpc as rpc
from quire.wire.adds import EncodedRun, encode_request, encode_run
from quire.wire.codec import decode_failure, decode_info, decode_ranges, decode_tail
from quire.wire.transport import (
    BATCH_BYTES_MAX,
    EOF,
    SENT_RUN_BYTES_MAX,
    WRITE_ERRORS,
    RpcError,
    explain,
    open_channel,
)

REQUEST_SECONDS: Final = 5.0
"""How long a request may take before its bookie counts as unavailable."""

WAIT_SECONDS_MAX: Final = 300.0
"""Longest wait of one `wait_tail`; a longer one returns early with nothing new."""

QUEUED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of runs that may wait to be sent; beyond it an add is refused with `BookieBusyError`."""

NO_MESSAGE: Final = "what it answered is no message"

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")


class RemoteBookie:
    """The bookie at an address. Needs a running event loop and belongs to it.

    Implements `quire.bookie.Bookie`. Besides what the port names, `WrongBookieError` is raised
    when another bookie answers at the address. A request without an answer after
    `request_timeout` seconds raises `BookieUnavailableError`. Connecting is on demand; after a
    failure requests fail at once while the channel waits (50 ms, growing to 1 s) before it tries
    again.
    """

    def __init__(self, address: BookieAddress, *, request_timeout: float = REQUEST_SECONDS) -> None:
        self.address = address
        self._bookie = address.bookie
        self._timeout = request_timeout
        self._channel = open_channel(address.address)
        self._stub: Any = rpc.BookieStub(self._channel)
        open_stream: Any = self._channel.stream_stream  # of bytes: adds.py has serialized them
        self._open_adds = open_stream(adds.METHOD, response_deserializer=pb.AddReply.FromString)
        open_call: Any = self._channel.unary_stream  # of bytes: reads.py takes them apart
        serialize = pb.ReadRequest.SerializeToString
        self._open_read = open_call(reads.METHOD, request_serializer=serialize)
        self._stream: _AddStream | None = None
        self._broken: list[_AddStream] = []
        self._closed = False

    def add(
        self,
        ledger: LedgerId,
        key: bytes,
        run: bytes,
        *,
        recovery: bool = False,
        deferred: bool = False,
    ) -> asyncio.Future[None]:
        """See `Bookie.add`. Cancelling leaves the run in its place in the stream."""
        try:
            if len(run) > SENT_RUN_BYTES_MAX:
                raise InvalidRequestError(
                    f"run of {len(run)} bytes exceeds the limit of {SENT_RUN_BYTES_MAX}"
                )
            encoded = _build(
                encode_run, ledger=ledger, key=key, run=run, recovery=recovery, deferred=deferred
            )
            return self._open_stream().submit(encoded)
        except QuireError as error:
            return refused(error)

    def _open_stream(self) -> _AddStream:
        self._check_open()
        if self._stream is None or self._stream.broken is not None:
            if self._stream is not None:
                self._broken = [stream for stream in self._broken if not stream.ended]
                self._broken.append(self._stream)
            self._stream = _AddStream(self._open_adds(), self._bookie, self._timeout)
        return self._stream

    async def read(
        self,
        ledger: LedgerId,
        first: EntryId,
        last: EntryId,
        *,
        fence_key: bytes | None = None,
        bytes_max: int = READ_BYTES_MAX,
    ) -> bytes:
        """See `Bookie.read`."""
        request = _build(
            pb.ReadRequest,
            bookie=self._bookie,
            ledger=ledger,
            first=first,
            last=last,
            fence_key=fence_key,
            bytes_max=min(max(bytes_max, 0), 2**32 - 1),
        )
        self._check_open()
        return await self._answer(
            self._collect(self._open_read(request, timeout=self._timeout)), self._timeout
        )

    async def _collect(self, call: Any) -> bytes:
        parts: list[bytes | memoryview] = []
        size = received = 0
        while (message := await call.read()) is not EOF:
            try:
                size, data = reads.decode_part(message)
            except reads.NoMessageError as error:
                raise self._unavailable(f"{NO_MESSAGE}: {error}") from error
            received += len(data)
            parts.append(data)
        if received != size or not parts:
            raise self._unavailable(f"a read ended after {received} of {size} bytes")
        return b"".join(parts)

    async def read_tail(self, ledger: LedgerId, *, fence_key: bytes | None = None) -> LedgerTail:
        """See `Bookie.read_tail`."""
        request = _build(
            pb.ReadTailRequest, bookie=self._bookie, ledger=ledger, fence_key=fence_key
        )
        return decode_tail(await self._call(self._stub.ReadTail, request, self._timeout))

    async def wait_tail(self, ledger: LedgerId, above: EntryId, timeout: float) -> LedgerTail:
        """See `Bookie.wait_tail`; returns after `WAIT_SECONDS_MAX` at the latest."""
        wait = min(max(timeout, 0.0), WAIT_SECONDS_MAX)
        request = _build(
            pb.WaitTailRequest,
            bookie=self._bookie,
            ledger=ledger,
            above=above,
            timeout_ms=round(wait * 1000),
        )
        return decode_tail(await self._call(self._stub.WaitTail, request, wait + self._timeout))

    async def write_lac(self, ledger: LedgerId, key: bytes, packet: bytes) -> None:
        """See `Bookie.write_lac`."""
        request = _build(
            pb.WriteLacRequest, bookie=self._bookie, ledger=ledger, key=key, packet=packet
        )
        reply = await self._call(self._stub.WriteLac, request, self._timeout)
        if reply.HasField("failure"):
            raise decode_failure(reply.failure)

    async def sync(
        self, ledger: LedgerId, key: bytes, first: EntryId, last: EntryId
    ) -> list[tuple[EntryId, EntryId]]:
        """See `Bookie.sync`."""
        request = _build(
            pb.SyncRequest, bookie=self._bookie, ledger=ledger, key=key, first=first, last=last
        )
        return await self._call_for_ranges(self._stub.Sync, request)

    async def list_entries(self, ledger: LedgerId) -> list[tuple[EntryId, EntryId]]:
        """See `Bookie.list_entries`."""
        request = _build(pb.ListEntriesRequest, bookie=self._bookie, ledger=ledger)
        return await self._call_for_ranges(self._stub.ListEntries, request)

    async def info(self) -> BookieInfo:
        """See `Bookie.info`."""
        request = pb.InfoRequest(bookie=self._bookie)
        return decode_info(await self._call(self._stub.Info, request, self._timeout))

    async def _call(self, method: Any, request: object, timeout: float) -> Any:
        self._check_open()
        reply = await self._answer(method(request, timeout=timeout), timeout)
        if reply is None:  # gRPC makes that of bytes that it cannot decode
            raise self._unavailable(NO_MESSAGE)
        return reply

    async def _call_for_ranges(self, method: Any, request: object) -> list[tuple[EntryId, EntryId]]:
        reply = await self._call(method, request, self._timeout)
        if len(reply.bounds) % 2:
            raise self._unavailable(f"{NO_MESSAGE}: its last range has no end")
        return decode_ranges(reply)

    async def _answer(self, call: Awaitable[ReplyT], timeout: float) -> ReplyT:
        """Wait for an answer; whatever happens to the link is an unavailable bookie."""
        try:
            return await call
        except RpcError as error:
            raise self._unavailable(explain(error, timeout)) from error
        except asyncio.CancelledError:
            # Closing the channel cancels its calls, which looks as if their callers were.
            if _is_cancelled() or not self._closed:
                raise
            raise self._unavailable("its stub was closed") from None

    def _check_open(self) -> None:
        if self._closed:
            raise self._unavailable("its stub was closed")

    def _unavailable(self, reason: str) -> BookieUnavailableError:
        return BookieUnavailableError(self._bookie, reason)

    async def close(self) -> None:
        """Break what is under way and release the connection. Harmless when called again."""
        self._closed = True
        for stream in (*self._broken, *([self._stream] if self._stream else [])):
            await stream.close()
        await self._channel.close(None)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _build(message: Callable[..., RequestT], **fields: object) -> RequestT:
    """Make a message; a value that does not fit its field was asked for by no client of quire."""
    try:
        return message(**fields)
    except (ValueError, TypeError) as error:
        raise InvalidRequestError(f"{message.__name__} cannot be sent: {error}") from error


class _Waiting:
    """An add between its call and its answer."""

    __slots__ = ("future", "since")

    def __init__(self, future: asyncio.Future[None], since: float) -> None:
        self.future = future
        self.since = since


class _AddStream:
    """One stream of adds, from its first run to its break. Never mended: a new one takes its
    place."""

    def __init__(self, call: Any, bookie: BookieId, timeout: float) -> None:
        self.broken: QuireError | None = None
        self._call = call
        self._bookie = bookie
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._queue: deque[EncodedRun] = deque()
        self._queued_bytes = 0
        self._queued = asyncio.Event()
        self._last_sent = 0
        self._last_submitted = 0
        self._waiting: dict[int, _Waiting] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._sending = asyncio.create_task(self._send())
        self._receiving = asyncio.create_task(self._receive())

    @property
    def ended(self) -> bool:
        return self._sending.done() and self._receiving.done()

    def submit(self, encoded: EncodedRun) -> asyncio.Future[None]:
        """Queue a run behind all others; the future resolves when it is durable, or fails."""
        size = len(encoded.run)
        if self._queue and self._queued_bytes + size > QUEUED_BYTES_MAX:
            raise BookieBusyError(self._bookie, f"{self._queued_bytes} bytes wait to be sent to it")
        future = self._loop.create_future()
        self._last_submitted += 1
        self._waiting[self._last_submitted] = _Waiting(future, self._loop.time())
        self._queue.append(encoded)
        self._queued_bytes += size
        self._queued.set()
        if self._alarm is None:
            self._alarm = self._loop.call_later(self._timeout, self._check_oldest)
        return future

    async def _send(self) -> None:
        try:
            while True:
                await self._queued.wait()
                self._queued.clear()
                while self._queue:
                    await self._call.write(self._next_message())
        except WRITE_ERRORS:
            pass  # the stream is over: reading it tells why

    def _next_message(self) -> bytes:
        """Take runs off the queue, up to the size of a message."""
        first, runs, total = self._last_sent + 1, list[EncodedRun](), 0
        while self._queue and (not total or total + len(self._queue[0].run) <= BATCH_BYTES_MAX):
            encoded = self._queue.popleft()
            runs.append(encoded)
            total += len(encoded.run)
        self._last_sent += len(runs)
        self._queued_bytes -= total
        return encode_request(first, self._bookie if first == 1 else None, runs)

    async def _receive(self) -> None:
        reason = "it closed the connection"
        try:
            while (reply := await self._call.read()) is not EOF:
                if reply is None:  # gRPC makes that of bytes that it cannot decode
                    raise reads.NoMessageError("it cannot be decoded")
                if reply.HasField("refusal"):
                    self._break(decode_failure(reply.refusal))
                    return
                self._settle(reply)
        except reads.NoMessageError as error:
            reason = f"{NO_MESSAGE}: {error}"
        except RpcError as error:
            reason = explain(error)
        except asyncio.CancelledError:
            reason = "the connection was closed"
            raise
        finally:
            self._break(BookieUnavailableError(self._bookie, reason))

    def _settle(self, reply: pb.AddReply) -> None:
        waiting = self._waiting
        if reply.settled > self._last_sent:
            raise reads.NoMessageError(f"it settles run {reply.settled}, which was not sent")
        for failed in reply.failures:
            if failed.number not in waiting or failed.number > reply.settled:
                raise reads.NoMessageError(f"run {failed.number} fails, which it does not settle")
            future = waiting.pop(failed.number).future
            if not future.done():
                future.set_exception(decode_failure(failed.failure))
        while waiting and (number := next(iter(waiting))) <= reply.settled:
            future = waiting.pop(number).future
            if not future.done():
                future.set_result(None)

    def _check_oldest(self) -> None:
        """Break the stream when its oldest run is overdue; one alarm serves all of them."""
        self._alarm = None
        if not self._waiting:
            return
        due = self._waiting[next(iter(self._waiting))].since + self._timeout
        if due <= self._loop.time():
            self._break(
                BookieUnavailableError(self._bookie, f"no answer within {self._timeout:g} s")
            )
        else:
            self._alarm = self._loop.call_at(due, self._check_oldest)

    def _break(self, error: QuireError) -> None:
        """Fail whatever waits and end both tasks. The first reason given stays."""
        if self.broken is not None:
            return
        self.broken = error
        if self._alarm is not None:
            self._alarm.cancel()
        for waiting in self._waiting.values():
            if not waiting.future.done():
                waiting.future.set_exception(error)
        self._waiting.clear()
        self._queue.clear()
        self._call.cancel()
        self._sending.cancel()

    async def close(self) -> None:
        """Break the stream and return when its tasks have ended."""
        self._break(BookieUnavailableError(self._bookie, "its stub was closed"))
        self._receiving.cancel()
        await asyncio.gather(self._sending, self._receiving, return_exceptions=True)
