"""A bookie far away: the port over gRPC; adds, subscriptions and reads as plain frames where the
bookie takes these.

All adds of one `RemoteBookie` share one stream (run_stream.py), which keeps them in order; explicit
LACs travel among them. When it breaks, everything without an answer fails and the next add opens a
new stream.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import le, lt
from typing import Any, Final, TypeVar

from quire.aio.answer import Answered
from quire.bookie import (
    READ_ANSWER_BYTES_MAX,
    READ_BYTES_MAX,
    BookieAddress,
    BookieInfo,
    LedgerTail,
    Stride,
    refused,
)
from quire.entry import EntryId, LedgerId
from quire.errors import BookieUnavailableError, InvalidRequestError, QuireError
from quire.ledger.freshness import Freshness
from quire.ledger.news_link import NewsLink, PushedTail
from quire.ledger.read_keys import ReadKeys
from quire.ledger.read_link import ReadLink
from quire.ledger.run_account import StreamName
from quire.ledger.run_stream import NO_MESSAGE, RunStream
from quire.outline import Outline, check_outlines
from quire.requests import REQUEST_ID, SLOW_SECONDS, SlowRequests, Trace, new_request_id
from quire.run import FRAME_BYTES_MAX, SIZE
from quire.wire import bookie_pb2 as pb
from quire.wire import reads
from quire.wire.adds import RunEncoder, encode_lac, encode_run
from quire.wire.channel import BookieChannel
from quire.wire.codec import decode_info, decode_outlines, decode_ranges, decode_tail
from quire.wire.hello import Hello
from quire.wire.run_calls import (
    FramedNews,
    FramedReads,
    FramedRuns,
    GrpcRuns,
    NewsCall,
    ReadCall,
    RunCall,
)
from quire.wire.tls import Contexts
from quire.wire.transport import EOF, SENT_RUN_BYTES_MAX, RpcError, metadata_of

REQUEST_SECONDS: Final = 5.0
"""How long a request may take before its bookie counts as unavailable."""

WAIT_SECONDS_MAX: Final = 300.0
"""Longest wait of one `wait_tail`; a longer one returns early with nothing new."""

RUN_READ_BYTES_MAX: Final = READ_ANSWER_BYTES_MAX + SIZE.size + FRAME_BYTES_MAX
"""More than any read returns: it is cut at the requested bytes, unless its first frame is larger.
"""

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")


class RemoteBookie:
    """The bookie at an address. Needs a running event loop and belongs to it.

    Implements `quire.bookie.Bookie`. Besides the port's errors, `WrongBookieError` is raised
    when another bookie answers at the address. A request without an answer after
    `request_timeout` seconds raises `BookieUnavailableError`. Connecting is on demand; after a
    failure requests fail at once while the channel waits (50 ms, growing to 1 s) before it tries
    again.
    """

    def __init__(
        self,
        address: BookieAddress,
        *,
        request_timeout: float = REQUEST_SECONDS,
        slow_seconds: float = SLOW_SECONDS,
        tls: Contexts | None = None,
        keys: ReadKeys | None = None,
    ) -> None:
        """Make a link to an address, without waiting. A request that takes longer than
        `slow_seconds` is logged. `tls` are the certificates of this process; without them the link
        has no TLS. `keys` go along with reads of the ledgers that need them.
        """
        self._key_of = (keys or ReadKeys()).of
        self._slow = SlowRequests(logging.getLogger("quire.slow"), slow_seconds)
        self.address = address
        self._tls = tls
        self._bookie = address.bookie
        self._timeout = request_timeout
        self._grpc = BookieChannel(address.address, address.bookie, tls)
        self._stream: RunStream | None = None
        self._before: list[RunStream] = []
        """Streams that were broken or replaced, and may still be ending."""
        self._certificates = Freshness(tls)
        self._news_certificates = Freshness(tls)
        self._news = NewsLink(
            *(self._bookie, self._open_news, request_timeout, self._is_news_old, self._key_of)
        )
        self._read_certificates = Freshness(tls)
        self._reads = ReadLink(
            *(self._bookie, self._open_reads, request_timeout, RUN_READ_BYTES_MAX),
            self._read_certificates.is_outdated,
        )
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
                raise _too_large(run)
            encoded = _build(
                encode_run, ledger=ledger, key=key, run=run, recovery=recovery, deferred=deferred
            )
            return self._open_stream().submit(encoded)
        except QuireError as error:
            return refused(error)

    def send(self, encoder: RunEncoder, run: bytes, answered: Answered) -> None:
        """See `RunLink.send`."""
        if len(run) > SENT_RUN_BYTES_MAX:
            raise _too_large(run)
        self._open_stream().send(encoder.encode(run), answered)

    def _open_stream(self) -> RunStream:
        self._check_open()
        before = self._stream
        if before is None or before.broken is not None or self._certificates.is_outdated(before):
            if before is not None:
                self._before = [stream for stream in self._before if not stream.ended]
                self._before.append(before)
            is_followed = before is not None and before.broken is None
            stream, after = new_request_id(), before if is_followed else None
            call = self._open_call(stream)
            name = StreamName(stream, self.address.runs or self.address.address, self._slow)
            self._stream = RunStream(call, self._bookie, self._timeout, after, name)
            self._certificates.opened()
        assert self._stream is not None, "it was opened"
        return self._stream

    def _open_call(self, stream: str) -> RunCall:
        runs = self.address.runs
        if runs is None:
            return GrpcRuns(self._grpc.channel, self._grpc.explain, stream)
        hello = Hello("client", stream=stream) if self.address.says_hello else None
        session = None if self._tls is None else self._tls.open(self._bookie)
        return FramedRuns(runs, hello, session)

    async def subscribe(
        self, ledger: LedgerId, above: EntryId, first: EntryId, quiet: float
    ) -> PushedTail | None:
        """See `Subscribable.subscribe`."""
        self._check_open()
        return await self._news.subscribe(ledger, above, first, quiet)

    def _open_news(self) -> NewsCall | None:
        runs = self.address.runs
        if runs is None or not self.address.says_hello:
            return None
        session = None if self._tls is None else self._tls.open(self._bookie)
        self._news_certificates.opened()
        return FramedNews(runs, Hello("client", stream=new_request_id()), session)

    def _is_news_old(self, call: NewsCall) -> bool:
        return self._news_certificates.is_outdated(call)

    def _open_reads(self) -> ReadCall | None:
        runs = self.address.runs
        if runs is None or not self.address.says_hello:
            return None
        session = None if self._tls is None else self._tls.open(self._bookie)
        self._read_certificates.opened()
        return FramedReads(runs, Hello("client", stream=new_request_id()), session)

    async def read(
        self,
        ledger: LedgerId,
        first: EntryId,
        last: EntryId,
        *,
        fence_key: bytes | None = None,
        bytes_max: int = READ_BYTES_MAX,
        stride: Stride | None = None,
    ) -> bytes:
        """See `Bookie.read`."""
        request = _build(
            pb.ReadRequest,
            bookie=self._bookie,
            ledger=ledger,
            first=first,
            last=last,
            fence_key=fence_key,
            key=self._key_of(ledger),
            bytes_max=min(max(bytes_max, 0), 2**32 - 1),
        )
        with self._traced("Read", ledger) as request_id:
            self._check_open()
            now = asyncio.get_running_loop().time
            ends = now() + self._timeout
            run = await self._reads.read(request, request_id)
            if run is not None:
                return run
            self._check_open()
            await self._grpc.renew()
            metadata, left = metadata_of(request_id), max(0.0, ends - now())
            call = self._grpc.open_read(request, timeout=left, metadata=metadata)
            return await self._answer(self._collect(call), self._timeout)

    async def _collect(self, call: Any) -> bytes:
        parts: list[bytes | memoryview] = []
        size = received = 0
        while (message := await call.read()) is not EOF:
            try:
                size, data = reads.decode_part(message)
            except reads.NoMessageError as error:
                raise self._unavailable(f"{NO_MESSAGE}: {error}") from error
            received += len(data)
            if received > size or size > RUN_READ_BYTES_MAX:
                raise self._unavailable(f"{NO_MESSAGE}: {received} of {size} bytes of a run")
            parts.append(data)
        if received != size or not parts:
            raise self._unavailable(f"a read ended after {received} of {size} bytes")
        return b"".join(parts)

    async def read_tail(self, ledger: LedgerId, *, fence_key: bytes | None = None) -> LedgerTail:
        """See `Bookie.read_tail`."""
        key = self._key_of(ledger)
        request = _build(
            pb.ReadTailRequest, bookie=self._bookie, ledger=ledger, fence_key=fence_key, key=key
        )
        return decode_tail(await self._call("ReadTail", request, self._timeout))

    async def wait_tail(self, ledger: LedgerId, above: EntryId, timeout: float) -> LedgerTail:
        """See `Bookie.wait_tail`; returns after `WAIT_SECONDS_MAX` at the latest."""
        wait = min(max(timeout, 0.0), WAIT_SECONDS_MAX)
        request = _build(
            pb.WaitTailRequest,
            bookie=self._bookie,
            ledger=ledger,
            above=above,
            key=self._key_of(ledger),
            timeout_ms=round(wait * 1000),
        )
        return decode_tail(await self._call("WaitTail", request, wait + self._timeout))

    async def write_lac(self, ledger: LedgerId, key: bytes, packet: bytes) -> None:
        """See `Bookie.write_lac`. It travels in the stream of adds, in a place of its own."""
        encoded = _build(encode_lac, ledger=ledger, key=key, packet=packet)
        await self._open_stream().submit(encoded)

    async def sync(
        self, ledger: LedgerId, key: bytes, first: EntryId, last: EntryId
    ) -> list[tuple[EntryId, EntryId]]:
        """See `Bookie.sync`."""
        request = _build(
            pb.SyncRequest, bookie=self._bookie, ledger=ledger, key=key, first=first, last=last
        )
        return await self._call_for_ranges("Sync", request)

    async def list_entries(
        self, ledger: LedgerId, first: EntryId = 0
    ) -> list[tuple[EntryId, EntryId]]:
        """See `Bookie.list_entries`."""
        request = _build(pb.ListEntriesRequest, bookie=self._bookie, ledger=ledger, first=first)
        return await self._call_for_list("ListEntries", request, first)

    async def list_ledgers(self, first: LedgerId = 0) -> list[tuple[LedgerId, LedgerId]]:
        """See `Bookie.list_ledgers`."""
        request = _build(pb.ListLedgersRequest, bookie=self._bookie, first=first)
        return await self._call_for_list("ListLedgers", request, first)

    async def outlines(self, ledgers: Sequence[LedgerId]) -> list[Outline | None]:
        """See `Bookie.outlines`. A bookie of an older program raises `BookieUnavailableError`."""
        check_outlines(ledgers)
        request = _build(pb.OutlinesRequest, bookie=self._bookie, ledgers=ledgers)
        reply = await self._call("Outlines", request, self._timeout)
        found = decode_outlines(reply)
        if len(found) != len(ledgers):
            raise self._unavailable(f"{NO_MESSAGE}: {len(found)} outlines of {len(ledgers)}")
        return found

    async def info(self) -> BookieInfo:
        """See `Bookie.info`."""
        request = pb.InfoRequest(bookie=self._bookie)
        return decode_info(await self._call("Info", request, self._timeout))

    async def _call(self, method: str, request: object, timeout: float) -> Any:
        ledger = getattr(request, "ledger", None)
        with self._traced(method, ledger, timeout - self._timeout) as request_id:
            self._check_open()
            await self._grpc.renew()
            metadata = metadata_of(request_id)
            call = getattr(self._grpc.stub, method)(request, timeout=timeout, metadata=metadata)
            reply = await self._answer(call, timeout)
        if reply is None:  # gRPC returns None for bytes that it cannot decode
            raise self._unavailable(NO_MESSAGE)
        return reply

    @contextmanager
    def _traced(self, kind: str, ledger: LedgerId | None, wait: float = 0.0) -> Iterator[str]:
        """Make a call in the block, under the yielded id; if it takes long it is logged.

        Args:
            kind: the name of the call.
            ledger: the ledger that it is about.
            wait: seconds that the bookie was asked to wait.
        """
        now = asyncio.get_running_loop().time
        trace = Trace(now())
        request = REQUEST_ID.get() or new_request_id()
        try:
            yield request
        finally:
            trace.arrived += wait
            about = {"bookie": self._bookie, "ledger": ledger, "peer": self.address.address}
            self._slow.tell(kind, trace, now(), request, about)

    async def _call_for_ranges(self, method: str, request: object) -> list[tuple[EntryId, EntryId]]:
        """Return the ranges of an answer. A list is asked for piece by piece: an answer that is out
        of order, or repeats an earlier one, would never come to its end.
        """
        reply = await self._call(method, request, self._timeout)
        bounds = reply.bounds
        if len(bounds) % 2:
            raise self._unavailable(f"{NO_MESSAGE}: its last range has no end")
        lows, highs, nexts = bounds[::2], bounds[1::2], bounds[2::2]
        if not (all(map(le, lows, highs)) and all(map(lt, highs, nexts))):
            raise self._unavailable(f"{NO_MESSAGE}: its ranges do not ascend")
        return decode_ranges(reply)

    async def _call_for_list(
        self, method: str, request: object, first: int
    ) -> list[tuple[int, int]]:
        """Return a piece of a list from an id on. A bookie that does not know of pieces says it all
        again.
        """
        found = await self._call_for_ranges(method, request)
        return [(max(low, first), high) for low, high in found if high >= first]

    async def _answer(self, call: Awaitable[ReplyT], timeout: float) -> ReplyT:
        """Wait for an answer; whatever happens to the link is an unavailable bookie."""
        try:
            return await call
        except RpcError as error:
            raise await self._grpc.explain(error, timeout) from error
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
        """Break calls under way and release the connection. Harmless when called again."""
        self._closed = True
        for stream in (*self._before, *([self._stream] if self._stream else [])):
            await stream.close()
        await self._news.close()
        await self._reads.close()
        await self._grpc.close()


def _too_large(run: bytes) -> InvalidRequestError:
    return InvalidRequestError(f"run of {len(run)} bytes exceeds the limit of {SENT_RUN_BYTES_MAX}")


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _build(message: Callable[..., RequestT], **fields: object) -> RequestT:
    """Make a message; a value that does not fit its field was asked for by no client of quire."""
    try:
        return message(**fields)
    except (ValueError, TypeError) as error:
        raise InvalidRequestError(f"{message.__name__} cannot be sent: {error}") from error
