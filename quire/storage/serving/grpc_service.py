"""A bookie on the network: the gRPC service over any `Bookie`, and beside it a port for runs alone.

The service trusts no message: it checks that a call is for its bookie, bounds the calls under
way, and turns the bookie's errors into answers (quire/wire/codec.py).

Not here: the bookie itself (node.py), streams of runs (add_stream.py), the rules common to all
calls (limits.py), and a bookie's life as a process (server.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from dataclasses import replace
from functools import partial, wraps
from typing import Any, Final, TypeAlias, TypeVar

from quire.aio.tasks import stop
from quire.aio.timing import time_limit
from quire.bookie import (
    QUIRE,
    QUIRE_TLS,
    Bookie,
    BookieAddress,
    TlsPorts,
    list_all,
)
from quire.entry import BookieId, LedgerId
from quire.requests import TRACE, Trace
from quire.rights.calls import RPCS
from quire.rights.roles import Action
from quire.run import FRAME_BYTES_MAX
from quire.storage.serving.add_stream import AddStream, decode_runs
from quire.storage.serving.change_waiter import tail_now, wait_change
from quire.storage.serving.handing_over import NotTakenError, UntakenReplies, give_up, hand_over
from quire.storage.serving.idlers import Idlers, watch
from quire.storage.serving.limits import (
    PEER,
    Doorkeeper,
    LetsRead,
    Reception,
    ServiceLimits,
    named_peer,
    owner_of_call,
)
from quire.storage.serving.news_counts import NewsCounts
from quire.storage.serving.read_stream import look_up
from quire.storage.serving.refusals import Refusals
from quire.storage.serving.run_listener import serve_runs
from quire.storage.serving.stream_account import Origin
from quire.wire import bookie_pb2 as pb
from quire.wire.codec import (
    RANGES_MAX,
    encode_info,
    encode_outlines,
    encode_ranges,
    encode_tail,
)
from quire.wire.descriptors import connections_max, descriptors_max
from quire.wire.grpc_tls import peer_identity
from quire.wire.identity import Identity
from quire.wire.peer_sockets import end_connection
from quire.wire.tls import Contexts
from quire.wire.transport import (
    EOF,
    MESSAGE_BYTES_MAX,
    REQUEST_BYTES_MAX,
    RESOURCE_EXHAUSTED,
    ServerContext,
    add_service,
    advertised,
    bind,
    open_server,
    request_of,
    split_address,
)

_Unary: TypeAlias = "Callable[[BookieService, Any, str], Awaitable[ReplyT]]"
"""A method, given the name under which its caller shares limits."""
_Handler: TypeAlias = "Callable[[BookieService, Any, ServerContext], Awaitable[ReplyT]]"
ReplyT = TypeVar("ReplyT", pb.TailReply, pb.ListEntriesReply, pb.OutlinesReply, pb.InfoReply)

_log = logging.getLogger(__name__)

OpenDoor: TypeAlias = "Callable[[Reception, int], AbstractAsyncContextManager[object]]"
"""Opens a port of another protocol, for so many connections."""

WAIT_SECONDS_MAX: Final = 600.0
"""Longest time a long poll is held."""


def _answers(reply: type[ReplyT]) -> Callable[[_Unary[ReplyT]], _Handler[ReplyT]]:
    """Make a unary handler of a method: check that the call is for this bookie and permitted, turn
    errors into answers, and be waited for.
    """

    def decorate(method: _Unary[ReplyT]) -> _Handler[ReplyT]:
        kind = method.__name__
        row = RPCS[kind]
        is_read = row.action is Action.READ

        @wraps(method)
        async def handler(self: BookieService, request: Any, context: ServerContext) -> ReplyT:
            reception = self.reception
            about, identity = getattr(request, "ledger", None), peer_identity(context)
            owner = owner_of_call(context)
            traced = _traced(reception, kind, about, context, identity)
            with reception.calling(context), traced as trace:
                try:
                    reception.expect(request.bookie)
                    reception.refuse_when_draining()
                    await reception.permit(identity, row.action_of(request), about)
                    if is_read:
                        reception.check_reader(identity, request)
                    with reception.place(kind, owner):
                        trace.accepted = reception.now()
                        answer = await method(self, request, owner)
                    if is_read:  # again: the ledger may have begun while the call waited for it
                        await reception.permit(identity, row.action_of(request), about)
                        reception.check_reader(identity, request)
                    self._untaken.add(answer.ByteSize(), context, owner)
                    return answer
                except Exception as error:
                    return reply(failure=reception.failure(error))

        return handler

    return decorate


def _traced(
    reception: Reception,
    kind: str,
    ledger: LedgerId | None,
    context: ServerContext,
    identity: Identity,
) -> AbstractContextManager[Trace]:
    """Trace a call under the id that its client gave it."""
    peer = named_peer(identity, context.peer())
    return reception.tracing(kind, ledger, request_of(context), peer)


class _GrpcStream:
    """The bookie's end of one stream of runs."""

    def __init__(self, context: ServerContext, seconds: float) -> None:
        self._context = context
        self._seconds = seconds

    async def read(self) -> object:
        message = await self._context.read()
        return EOF if message is EOF else decode_runs(message)

    async def write(self, message: pb.AddReply, /) -> None:
        try:
            async with time_limit(self._seconds):
                await self._context.write(message)
        except TimeoutError:
            end_connection(self._context.peer())
            raise


class BookieService:
    """The servicer of `quire.v1.Bookie` over any bookie, with messages of at most so many bytes."""

    def __init__(self, reception: Reception, message_bytes_max: int = MESSAGE_BYTES_MAX) -> None:
        self.reception = reception
        self._message_bytes_max = message_bytes_max
        self.bookie = reception.bookie
        self._untaken = UntakenReplies(reception.unread, reception.bookie_id)

    async def Add(self, _: object, context: ServerContext) -> None:  # noqa: N802
        identity = peer_identity(context)
        peer, owner = named_peer(identity, context.peer()), owner_of_call(context)
        origin = Origin(peer, request_of(context), owner)
        stream = _GrpcStream(context, self.reception.limits.stalled_seconds)
        with self.reception.grpc_stream_of(owner, self._message_bytes_max) as refusal:
            if refusal is None:
                await AddStream(self.reception, stream, identity, origin).serve()
            else:
                await context.abort(RESOURCE_EXHAUSTED, refusal)

    async def Read(self, request: pb.ReadRequest, context: ServerContext) -> None:  # noqa: N802
        reception, is_stalled = self.reception, False
        failure: pb.ReadReply | None = None
        identity = peer_identity(context)
        traced = _traced(reception, "Read", request.ledger, context, identity)
        with reception.calling(context), traced as trace:
            try:
                owner = owner_of_call(context)
                # No name for the answer here: it must be gone when the call is given up.
                await hand_over(
                    *(await look_up(reception, identity, request, trace, owner), context),
                    reception.unread,
                    *(reception.bookie_id, owner),
                )
            except NotTakenError:
                is_stalled = True
            except Exception as error:
                # Not sent here: the error holds entries that were read, and the client may wait.
                failure = pb.ReadReply(failure=reception.failure(error))
            if is_stalled:
                await give_up(context)
            elif failure is not None:
                await context.write(failure.SerializeToString())

    @_answers(pb.TailReply)
    async def ReadTail(self, request: pb.ReadTailRequest, owner: str) -> pb.TailReply:  # noqa: N802
        fence_key = request.fence_key if request.HasField("fence_key") else None
        async with self.reception.gathering.turn(owner, FRAME_BYTES_MAX):
            return encode_tail(await self.bookie.read_tail(request.ledger, fence_key=fence_key))

    @_answers(pb.TailReply)
    async def WaitTail(self, request: pb.WaitTailRequest, owner: str) -> pb.TailReply:  # noqa: N802
        timeout = min(request.timeout_ms / 1000, WAIT_SECONDS_MAX)
        with self.reception.uses.waiting(request.ledger, PEER.get()):
            await wait_change(self.bookie, request.ledger, request.above, timeout)
        if (trace := TRACE.get()) is not None:
            trace.begin_again(self.reception.now())
        async with self.reception.gathering.turn(owner, FRAME_BYTES_MAX):
            return encode_tail(await tail_now(self.bookie, request.ledger))

    @_answers(pb.ListEntriesReply)
    async def Sync(self, request: pb.SyncRequest, _: str) -> pb.ListEntriesReply:  # noqa: N802
        wanted = (request.ledger, request.key, request.first, request.last)
        return encode_ranges(await self.bookie.sync(*wanted))

    @_answers(pb.ListEntriesReply)
    async def ListEntries(self, request: pb.ListEntriesRequest, _: str) -> pb.ListEntriesReply:  # noqa: N802
        list_from = partial(self.bookie.list_entries, request.ledger)
        if not request.HasField("first"):  # from a client that does not know pieces
            return encode_ranges(await list_all(list_from))
        return encode_ranges((await list_from(request.first))[:RANGES_MAX])

    @_answers(pb.ListEntriesReply)
    async def ListLedgers(self, request: pb.ListLedgersRequest, _: str) -> pb.ListEntriesReply:  # noqa: N802
        return encode_ranges((await self.bookie.list_ledgers(request.first))[:RANGES_MAX])

    @_answers(pb.OutlinesReply)
    async def Outlines(self, request: pb.OutlinesRequest, _: str) -> pb.OutlinesReply:  # noqa: N802
        return encode_outlines(await self.bookie.outlines(request.ledgers))

    @_answers(pb.InfoReply)
    async def Info(self, request: pb.InfoRequest, _: str) -> pb.InfoReply:  # noqa: N802
        info = await self.bookie.info()
        counters = {**info.counters, **self.reception.news.counters()}
        return encode_info(replace(info, in_use=self.reception.in_use(), counters=counters))


@asynccontextmanager
async def serve_bookie(
    bookie: Bookie,
    bookie_id: BookieId,
    listen: str = "127.0.0.1:0",
    listen_runs: str | None = None,
    *,
    advertise: str | None = None,
    limits: ServiceLimits | None = None,
    refusals: Refusals | None = None,
    doorkeeper: Doorkeeper | None = None,
    lets_read: LetsRead | None = None,
    news: NewsCounts | None = None,
    drain_seconds: float = 5.0,
    tls: Contexts | None = None,
    beside: TlsPorts | None = None,
    doors: Sequence[OpenDoor] = (),
) -> AsyncIterator[BookieAddress]:
    """Serve a bookie on host:port while the block runs; yields the address that clients are told,
    with the real port.

    With `listen_runs`, another host:port, runs are taken there as plain frames as well. Clients are
    told the host `advertise` instead of the host of `listen`; a wildcard such as 0.0.0.0 needs it.
    `refusals` counts what peers are refused, `news` what followers are sent; `doorkeeper` knows
    their rights, `lets_read` the keys that reads need. With certificates the
    ports take connections with TLS only; if there are ports `beside`, these do, and the others take
    connections without. `doors` are more ports, for other protocols.

    At the end of the block new work is refused, calls under way may finish for `drain_seconds`,
    and then every call is broken off. A cancelled block is drained as well. The bookie stays
    open: it is its owner's to close. Raises `ConfigurationError` when an address cannot be used.
    """
    for address in (listen, listen_runs or listen, *(beside or ())):
        if address is not None:
            advertised(address, advertise)
    reception = Reception(bookie, bookie_id, limits, refusals, doorkeeper, lets_read, news)
    wanted, ports = reception.limits.connections, 2 + len(doors)
    connections = connections_max(wanted, descriptors_max(), ports)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(reception.ended)
        open_doors = partial(_open_doors, stack, reception, advertise, connections)
        first = None if beside is not None else tls
        where, runs = await open_doors(listen, listen_runs, first)
        more = None if beside is None else TlsPorts(*await open_doors(*beside, tls))
        for door in doors:
            await stack.enter_async_context(door(reception, connections))
        protocol = QUIRE if first is None else QUIRE_TLS
        hello = runs is not None
        try:
            yield BookieAddress(
                bookie_id, where, runs=runs, says_hello=hello, protocol=protocol, tls=more
            )
        finally:
            await _drain(reception, drain_seconds)


async def _open_doors(
    stack: AsyncExitStack,
    reception: Reception,
    advertise: str | None,
    connections: int,
    listen: str,
    listen_runs: str | None,
    tls: Contexts | None,
) -> tuple[str, str | None]:
    """Serve on a pair of ports until the stack ends; return the addresses that clients are told."""
    runs = None
    if listen_runs is not None:
        doors = serve_runs(reception, listen_runs, connections, tls)
        runs = advertised(await stack.enter_async_context(doors), advertise)
    message_max = MESSAGE_BYTES_MAX if listen_runs is None else REQUEST_BYTES_MAX
    server = open_server(connections, message_max)
    address = bind(server, listen, None if tls is None else tls.certificates)
    clock = None if tls is None else tls.certificates.clock
    add_service(server, BookieService(reception, message_max), reception, clock, message_max)
    await server.start()
    stack.push_async_callback(server.stop, None)
    share, seconds = reception.limits.share(connections), reception.limits.first_message_seconds
    idlers = Idlers(connections, share, seconds)
    reception.idlers.append(idlers)
    watching = asyncio.create_task(
        watch(split_address(address)[1], idlers, reception.refusals), name="idle connections"
    )
    stack.push_async_callback(stop, watching)
    return advertised(address, advertise), runs


async def _drain(reception: Reception, seconds: float) -> None:
    try:
        async with time_limit(seconds):
            await reception.drain()
    except TimeoutError:
        _log.warning("bookie %s: calls still under way are broken off", reception.bookie_id)
