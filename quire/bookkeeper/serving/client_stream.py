"""One connection of a client of Apache's to a bookie of quire.

Adds are begun in the order of their arrival, each without a wait for the earlier ones, and are
answered when they are durable. Other requests are tasks, and are answered in any order. A client
with too much under way is not read from, by the bounds of the port for plain frames.

Invariants: an answer counts among the gathered bytes until it is there (answers.py), and among the
unread ones until it is written. A client that takes nothing, or little, holds up only itself. Each
request is charged to its peer (message_turns.py), but for adds that are taken.

A connection speaks the third protocol until its first message of the second, and then the second
alone, as at a bookie of Apache's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Final

from quire.bookie import UseKind
from quire.bookkeeper.protobuf import MalformedError
from quire.bookkeeper.serving.answers import Answers, Storage, check_add
from quire.bookkeeper.serving.codec import encode_reply, read_request
from quire.bookkeeper.serving.request import SECOND, ClientRequest, Reply, RequestKind
from quire.bookkeeper.status import Status
from quire.bookkeeper.wire3 import SIZE
from quire.errors import BookieBusyError
from quire.run import pack_run
from quire.storage.serving.limits import Reception, named_peer
from quire.storage.serving.offered_run import OfferedRun
from quire.storage.serving.run_taker import RunTaker
from quire.storage.serving.stream_account import RUN_COST
from quire.storage.serving.uses import StreamUses
from quire.wire.framed import ConnectionOverError, FramedConnection
from quire.wire.reads import PART_BYTES_MAX

REQUESTS_MAX: Final = 256
"""Requests of one connection that are carried out at the same time, without adds and long polls."""

POLLS_MAX: Final = 1024
"""Long polls of one connection at the same time. One more is refused; it has no task, so a client
that sends polls and takes no answers costs no more."""


class ClientStream:
    """See the module. Implements `quire.storage.serving.limits.Stream`."""

    def __init__(
        self,
        reception: Reception,
        storage: Storage,
        connection: FramedConnection,
        spoke: Callable[[], None],
        *,
        offers_tls: bool = False,
        refusal: str | None = None,
    ) -> None:
        """`spoke` is called when the first message is whole; `offers_tls` says whether START_TLS
        ends the stream, `refusal` why its client is not served.
        """
        self._offers_tls = offers_tls
        self._reception = reception
        self._spoke = spoke
        self._connection = connection
        self._owner = connection.owner
        identity = connection.peer.identity
        peer = named_peer(identity, connection.address)
        self._identity = identity
        self._uses = StreamUses(reception.uses, peer)
        self._answers = Answers(reception, storage, self._owner, peer, identity, refusal)
        self._taker = reception.bookie if isinstance(reception.bookie, RunTaker) else None
        self._writing = asyncio.Lock()
        self._untaken = reception.untaken(self._owner, connection.abort)
        self._outbox: list[bytes] = []
        """Answers to adds, each in two pieces."""
        self._ready = asyncio.Event()
        self._room = asyncio.Event()
        self._adds = 0
        self._bytes = 0
        self._charged = 0
        self._adding: dict[asyncio.Future[None], None] = {}
        self._asking: dict[asyncio.Task[None], None] = {}
        self._requests = 0
        """Requests in `_asking`, without long polls."""
        self._is_second = False
        self._is_over = False
        self._is_unheard = False
        """Whether answers to adds are sent no more."""

    @property
    def runs_in_flight(self) -> int:
        return self._adds + self._requests + bool(self._outbox)

    async def serve(self) -> ClientRequest | None:
        """Serve until the client closes or breaks the connection, or breaks the protocol. Return
        the START_TLS that the client goes on with, unanswered.
        """
        secured: ClientRequest | None = None
        with self._reception.streaming(self), closing(self._uses), closing(self._untaken):
            sending = asyncio.create_task(self._send())
            try:
                with suppress(ConnectionOverError):
                    secured = await self._receive()
            finally:
                self._is_over = True
                ending = [sending, *self._asking, *self._adding]
                for each in ending:
                    each.cancel()
                self._reception.pending.give_back(self._owner, self._charged)
                await asyncio.gather(*ending, return_exceptions=True)
        return secured

    async def _receive(self) -> ClientRequest | None:
        message = await self._connection.read()
        if message is not None:
            self._spoke()
        while message is not None:
            try:
                request = read_request(message)
            except MalformedError as error:
                self._reception.refusals.count("greeting", f"{self._connection.address}: {error}")
                return None
            if self._is_second and request.protocol != SECOND:
                return None
            self._is_second = request.protocol == SECOND
            if request.kind is RequestKind.START_TLS and self._offers_tls and self._is_idle:
                return request
            if request.kind is RequestKind.ADD:
                await self._add(request)
            else:
                await self._ask(request)
            message = await self._connection.read()
        return None

    @property
    def _is_idle(self) -> bool:
        """Whether every request has been answered."""
        return not (self._adds or self._asking or self._outbox)

    # Adds.

    async def _add(self, request: ClientRequest) -> None:
        size, pending = len(request.body), self._reception.pending
        while not self._has_room(size):
            await self._wait_for_room()
        cost = pending.fit(size + RUN_COST)
        if not pending.take(self._owner, cost):
            await pending.wait(self._owner, cost)
        self._charged += cost
        self._adds += 1
        self._bytes += size
        told = partial(self._added, request, cost)
        try:
            check_add(request)
            await self._answers.permit(request)
            self._begin(request, told)
        except Exception as error:
            told(error)
        else:
            return
        await self._reception.messages.wait(self._owner)  # it costs a stranger a few bytes

    def _begin(self, request: ClientRequest, told: partial[None]) -> None:
        run, key = pack_run([request.body]), request.key or b""
        taker = None if request.deferred else self._taker
        if taker is not None:
            now = self._reception.now()
            offer = OfferedRun(now, request.ledger, key, run, request.recovery, told)
            if taker.take([offer], 0):
                return
        adding = asyncio.ensure_future(
            self._reception.bookie.add(
                *(request.ledger, key, run),
                recovery=request.recovery,
                deferred=request.deferred,
            )
        )
        self._adding[adding] = None
        adding.add_done_callback(partial(self._ended, told))

    def _ended(self, told: partial[None], adding: asyncio.Future[None]) -> None:
        self._adding.pop(adding, None)
        if not adding.cancelled():
            told(adding.exception())

    def _added(self, request: ClientRequest, cost: int, error: Exception | None) -> None:
        """Answer an add that has ended."""
        if self._is_over:
            return
        self._adds -= 1
        self._bytes -= len(request.body)
        self._charged -= cost
        self._reception.pending.give_back(self._owner, cost)
        reply = Reply(Status.OK) if error is None else self._answers.refusal(error)
        if error is None:
            kind = UseKind.RECOVERS if request.recovery else UseKind.WRITES
            self._uses.note(request.ledger, kind, self._reception.now())
        self._outbox += sized(encode_reply(request, reply))
        self._ready.set()
        self._room.set()

    def _has_room(self, size: int) -> bool:
        limits = self._reception.limits
        unanswered = self._adds + len(self._outbox) // 2
        return unanswered < limits.runs_per_stream and (
            not self._adds or self._bytes + size <= limits.bytes_per_stream
        )

    async def _wait_for_room(self) -> None:
        """Wait until something ends. Raises `ConnectionOverError` when answers cannot be sent."""
        self._room.clear()
        if not self._is_unheard:
            await self._room.wait()
        if self._is_unheard:
            raise ConnectionOverError("it takes no answers")

    async def _send(self) -> None:
        """Send the answers to adds, all of one turn of the loop together."""
        try:
            with suppress(ConnectionOverError):
                await self._send_on()
        finally:
            self._is_unheard = True
            self._room.set()

    async def _send_on(self) -> None:
        while True:
            await self._ready.wait()
            self._ready.clear()
            async with self._writing:
                pieces, self._outbox = self._outbox, []
                self._room.set()
                await self._connection.write_packed(pieces)
                self._untaken.progressed()
            self._reception.settled()

    # Other requests.

    async def _ask(self, request: ClientRequest) -> None:
        await self._reception.messages.wait(self._owner)
        counts = request.kind is not RequestKind.WAIT
        while counts and self._requests >= REQUESTS_MAX:
            await self._wait_for_room()
        if not counts and len(self._asking) - self._requests >= POLLS_MAX:
            await self._write(encode_reply(request, Reply(Status.TOO_MANY_REQUESTS)))
            return
        self._requests += counts
        asking = asyncio.create_task(self._answer(request))
        self._asking[asking] = None
        asking.add_done_callback(partial(self._answered, counts))

    def _answered(self, counts: bool, asking: asyncio.Task[None]) -> None:
        self._asking.pop(asking, None)
        self._requests -= counts
        self._room.set()
        self._reception.settled()

    async def _answer(self, request: ClientRequest) -> None:
        message, counted = self._counted(request, await self._answers.answer(request))
        try:
            with suppress(ConnectionOverError):
                await self._write(message)
        finally:
            if counted:
                self._untaken.remove(counted)

    def _counted(self, request: ClientRequest, reply: Reply) -> tuple[bytes, int]:
        """Return the message of an answer, and how many untaken bytes it counts as.

        It is called in the step that ends their time among the gathered bytes.
        """
        message = encode_reply(request, reply)
        if not (reply.body or reply.packet):
            return message, 0
        try:
            self._untaken.add(len(message))
        except BookieBusyError as error:
            return encode_reply(request, self._answers.refusal(error)), 0
        return message, len(message)

    async def _write(self, message: bytes) -> None:
        """Send a message in parts: a transport that holds bytes back counts as one of them."""
        async with self._writing:
            for pieces in in_parts(message):
                await self._connection.write_packed(pieces)
                self._untaken.progressed()


def in_parts(message: bytes) -> Iterator[Sequence[bytes]]:
    """Yield the pieces of a message, its size first, `PART_BYTES_MAX` of it at a time."""
    yield SIZE.pack(len(message)), message[:PART_BYTES_MAX]
    for start in range(PART_BYTES_MAX, len(message), PART_BYTES_MAX):
        yield (message[start : start + PART_BYTES_MAX],)


def sized(message: bytes) -> Sequence[bytes]:
    """Return a message in pieces, its size first."""
    return (SIZE.pack(len(message)), message)
