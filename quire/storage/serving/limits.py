"""Rules common to all calls to a served bookie, over gRPC or plain frames.

They check that a call is for this bookie, limit the calls under way at the same time, turn an error
into an answer, and end the service: `drain` refuses new calls and waits for the answers of old
ones, `ended` waits until no call uses the bookie any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    contextmanager,
    nullcontext,
)
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from quire.bookie import Bookie, LedgerUses
from quire.checked import check_types
from quire.entry import BookieId, LedgerId
from quire.errors import (
    BookieBusyError,
    BookieUnavailableError,
    ConfigurationError,
    NotPermittedError,
    UnauthorizedError,
    WrongBookieError,
)
from quire.requests import REQUEST_ID, SLOW_SECONDS, TRACE, SlowRequests, Trace, new_request_id
from quire.rights.roles import Action
from quire.storage.serving.handing_over import GATHERED_BYTES_MAX, UntakenAnswers
from quire.storage.serving.held_bytes import HeldBytes
from quire.storage.serving.idlers import Idlers
from quire.storage.serving.large_messages import LargeMessages
from quire.storage.serving.message_turns import MESSAGES_MAX, MessageTurns
from quire.storage.serving.news_counts import NewsCounts
from quire.storage.serving.quota import Quota
from quire.storage.serving.refusals import InternalErrors, Refusals
from quire.storage.serving.uses import Uses
from quire.wire import bookie_pb2 as pb
from quire.wire.codec import encode_failure, is_internal
from quire.wire.grpc_tls import peer_identity
from quire.wire.identity import Identity, owner_of
from quire.wire.peer_sockets import parse_peer
from quire.wire.transport import (
    CONNECTIONS_MAX,
    RPCS_MAX,
    SENT_RUN_BYTES_MAX,
    ServerContext,
)

_slow_log = logging.getLogger("quire.slow")


PEER: Final[ContextVar[str]] = ContextVar("quire_peer", default="")
"""The client of the call at hand, as logs name it."""


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """Limits of work under way at the same time. Runs wait for space; other calls get BUSY."""

    runs_per_stream: int = 256
    bytes_per_stream: int = 4 * SENT_RUN_BYTES_MAX
    reads: int = 256
    """Each gathers an answer of up to 4 MiB, as do the ones below, if an entry is that large."""
    tails: int = 256
    lists: int = 256
    syncs: int = 4096
    """These wait for the journal only; a writer asks again after a refused sync."""
    waits: int = 8192
    unfinished_bytes: int = 128 * 1024 * 1024
    """For messages that are not whole, on all connections for runs: sixteen of the largest. As much
    again of first messages of calls over gRPC, where each counts as the largest of its port.
    """
    unread_bytes: int = 256 * 1024 * 1024
    """For answers that clients have not taken, on all connections: 64 of the largest."""
    received_bytes: int = 256 * 1024 * 1024
    """For whole messages, on all connections for runs, until their runs have begun. Others
    wait for space, and their senders with them.
    """
    connections: int = CONNECTIONS_MAX
    """To each of the two ports, if there are enough descriptors."""
    calls: int = RPCS_MAX
    """Calls over gRPC, long polls included."""
    streams: int = 4096
    """Streams of runs on all ports; each may hold one message until the bookie has room."""
    stream_bytes: int = 512 * 1024 * 1024
    """For messages of streams of runs over gRPC: each stream counts the largest of its port, since
    gRPC tells nothing of a message until it is whole. 64 streams without plain frames.
    """
    pending_bytes: int = 256 * 1024 * 1024
    """For runs without an answer, on all streams: twelve streams at their limit."""
    peer_share: float = 0.5
    """The part of each of these that one peer may take, at least one."""
    first_message_seconds: float = 30.0
    """A peer has so long for the first message of a call, or of a connection for runs."""
    stalled_seconds: float = 30.0
    """A peer has so long to end a message that it began, or to take an answer."""
    slow_request_seconds: float = SLOW_SECONDS
    """A request that takes as long is written to the log, with its stages."""

    def __post_init__(self) -> None:
        check_types(self)
        if not 0 < self.peer_share <= 1:
            raise ConfigurationError(
                f"peer_share {self.peer_share:g} is not a part of the whole: give a number above 0 "
                "and up to 1"
            )

    def share(self, size: int) -> int:
        """Return how much of a limit one peer may take."""
        return max(1, int(size * self.peer_share))


GRACE_SECONDS: Final = 1.0
"""A client that takes its answer gets so long before it can lose its place to another."""


def owner_of_call(context: ServerContext) -> str:
    """Return the name under which the caller over gRPC shares limits."""
    host, _ = parse_peer(context.peer()) or (context.peer(), 0)
    return owner_of(peer_identity(context), host)


def named_peer(identity: Identity, address: str) -> str:
    """Return how logs name a peer: its address, after its identity if it has one."""
    return f"{identity.name} at {address}" if identity.is_known else address


class Places:
    """So many at the same time of one kind of call."""

    def __init__(self, reception: Reception, size: int, what: str) -> None:
        self._quota = Quota(size, reception.limits.share(size))
        self._reception = reception
        self._what = what

    @property
    def taken(self) -> int:
        return self._quota.size - self._quota.free

    @contextmanager
    def take(self, owner: str) -> Iterator[None]:
        """Have a place in the block. Raises `BookieBusyError` when all are taken, or all that the
        peer may have.
        """
        if not self._quota.take(owner):
            raise self._refusal(owner)
        try:
            yield
        finally:
            self._quota.give_back(owner)

    def _refusal(self, owner: str) -> BookieBusyError:
        quota, reason = self._quota, f"{self._quota.size} {self._what}"
        if quota.held(owner) >= quota.peer_max:
            reason = f"{quota.peer_max} {self._what} for {owner or 'this client'}"
        self._reception.refusals.count("busy", reason)
        return BookieBusyError(self._reception.bookie_id, reason)


class Stream(Protocol):
    """A stream of runs, as far as the end of the service is concerned."""

    @property
    def runs_in_flight(self) -> int:
        """Runs that have come in and are not answered."""
        ...


class Doorkeeper(Protocol):
    """Port: the rights of peers (quire/rights/guard.py)."""

    def admits(self, identity: Identity, action: Action, ledger: LedgerId | None, /) -> bool:
        """Return whether a call is known to be permitted; False may mean that it must be asked."""
        ...

    async def check(self, identity: Identity, action: Action, ledger: LedgerId | None, /) -> None:
        """Return when a call is permitted. Raises `NotPermittedError`, and the errors of a look
        at the ledger's record.
        """
        ...


LetsRead: TypeAlias = "Callable[[LedgerId, bytes], bool]"
"""Whether a peer with a key may have entries of a ledger."""


class Reception:
    """Lets calls in to one bookie and sees them out."""

    def __init__(
        self,
        bookie: Bookie,
        bookie_id: BookieId,
        limits: ServiceLimits | None = None,
        refusals: Refusals | None = None,
        doorkeeper: Doorkeeper | None = None,
        lets_read: LetsRead | None = None,
        news: NewsCounts | None = None,
    ) -> None:
        """Without a doorkeeper each peer may do everything; without `lets_read` reads need no
        key. `refusals` and `news` count for the operator.
        """
        self.bookie = bookie
        self._lets_read = lets_read
        self._doorkeeper = doorkeeper
        self.bookie_id = bookie_id
        self.limits = limits or ServiceLimits()
        self.refusals = refusals or Refusals()
        self._internal = InternalErrors(bookie_id)
        self.news = news or NewsCounts()
        limits, share = self.limits, self.limits.share
        self.unfinished = HeldBytes(
            *("a message is not finished", "unfinished", limits.unfinished_bytes),
            self.refusals,
            seconds=limits.stalled_seconds,
        )
        self.unread = HeldBytes(
            *("an answer is not taken", "unread", limits.unread_bytes),
            self.refusals,
            grace=GRACE_SECONDS,
            seconds=limits.stalled_seconds,
        )
        self.received = Quota(limits.received_bytes, share(limits.received_bytes))
        """Bytes of whole messages that have come in plain frames."""
        self.large = LargeMessages()
        """Large messages that come in plain frames."""
        self.messages = MessageTurns(MESSAGES_MAX, share(MESSAGES_MAX))
        """Messages of connections for reads and subscriptions."""
        self.idlers: list[Idlers] = []
        """One for each gRPC port."""
        self.calls = Quota(limits.calls, share(limits.calls))
        self.streams = Quota(limits.streams, share(limits.streams))
        self.stream_bytes = Quota(limits.stream_bytes, share(limits.stream_bytes))
        self._arriving = Quota(limits.unfinished_bytes, share(limits.unfinished_bytes))
        """Bytes of first messages that gRPC may be gathering."""
        self.pending = Quota(limits.pending_bytes, share(limits.pending_bytes))
        """Bytes of runs between their arrival and their answer."""
        self.slow = SlowRequests(_slow_log, self.limits.slow_request_seconds)
        self.gathering = Quota(GATHERED_BYTES_MAX, share(GATHERED_BYTES_MAX))
        """Bytes that reads may gather at the same time."""
        self._draining = False
        self._calls = 0
        """Under way, but for streams of runs; reads and long polls are among them."""
        self._unanswered = 0
        """These calls, and ended calls with an answer that gRPC has not taken over yet."""
        self.reads = Places(self, limits.reads, "reads are under way")
        self.tails = Places(self, limits.tails, "reads of tails are under way")
        self.lists = Places(self, limits.lists, "lists of entries are under way")
        self.syncs = Places(self, limits.syncs, "syncs are under way")
        self.waits = Places(self, limits.waits, "reads wait for entries")
        self._places = {
            "ReadTail": self.tails,
            "WaitTail": self.waits,
            "Sync": self.syncs,
            "ListEntries": self.lists,
            "ListLedgers": self.lists,
            "Outlines": self.lists,
        }
        self.uses: Final = Uses()
        self._streams: list[Stream] = []
        self._settled = asyncio.Event()

    async def drain(self) -> None:
        """Refuse runs and calls from now on; return when those under way have been answered.

        Long polls are not waited for. Cancelling leaves the reception refusing.
        """
        self._draining = True
        while self._unanswered > self.waits.taken or any(
            each.runs_in_flight for each in self._streams
        ):
            self._settled.clear()
            await self._settled.wait()

    async def ended(self) -> None:
        """Return when no call uses the bookie any more; for after the server has stopped."""
        self.unfinished.close()
        self.unread.close()
        while self._streams or self._calls:
            self._settled.clear()
            await self._settled.wait()

    def settled(self) -> None:
        """Something that `drain` or `ended` waits for may have come to its end."""
        self._settled.set()

    @contextmanager
    def calling(self, context: ServerContext) -> Iterator[None]:
        """`ended` waits for a call's work in the block; `drain` waits until its answer has left.

        A handler's result is sent after it: a server that stops in between breaks the call off.
        """
        self._unanswered += 1
        context.add_done_callback(self._left)  # type: ignore[arg-type]
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            self.settled()

    def _left(self, _: object) -> None:
        self._unanswered -= 1
        self.settled()

    @contextmanager
    def tracing(
        self, kind: str, ledger: LedgerId | None, request: str, peer: str
    ) -> Iterator[Trace]:
        """Carry out a call in the block, which has a task of its own. If it takes long it is
        logged, with the stages that the trace has then.

        Args:
            kind: the name of the call.
            ledger: the ledger that it is about.
            request: the id that the client gave it; empty for none.
            peer: the client, as the transport knows it.
        """
        trace, request = Trace(self.now()), request or new_request_id()
        REQUEST_ID.set(request)
        TRACE.set(trace)
        PEER.set(peer)
        try:
            yield trace
        finally:
            about = {"bookie": self.bookie_id, "ledger": ledger, "peer": peer}
            now = self.now()
            trace.worked = trace.worked or now
            self.slow.tell(kind, trace, now, request, about)

    @contextmanager
    def streaming(self, stream: Stream) -> Iterator[None]:
        """A stream of runs is served in the block."""
        self._streams.append(stream)
        try:
            yield
        finally:
            self._streams.remove(stream)
            self.settled()

    def place(self, kind: str, owner: str) -> AbstractContextManager[None]:
        """Have a place for a call in the block, if calls of its kind are counted. Raises as
        `Places.take`.
        """
        places = self._places.get(kind)
        return nullcontext() if places is None else places.take(owner)

    def call_of(self, context: ServerContext) -> AbstractContextManager[str | None]:
        """Have a place for a call over gRPC in the block; yields the reason of a refusal."""
        remote = parse_peer(context.peer())
        if remote is not None:
            for each in self.idlers:
                each.called(remote)
        return self._admitted(self.calls, "calls", owner_of_call(context))

    def take_call(self, owner: str) -> str | None:
        """Take a place for a call in plain frames, to be given back to `calls`; return the reason
        of a refusal.
        """
        return self._take(self.calls, "calls", owner)

    def untaken(self, owner: str, end: Callable[[], None]) -> UntakenAnswers:
        """Return the count of the answers of one connection in plain frames; `end` ends it."""
        return UntakenAnswers(self.unread, self.bookie_id, owner, lambda _: end())

    def stream_of(self, owner: str) -> AbstractContextManager[str | None]:
        """Have a place for a stream of runs in the block; yields the reason of a refusal."""
        return self._admitted(self.streams, "connections", owner)

    def arriving(self, context: ServerContext, size: int) -> AbstractAsyncContextManager[None]:
        """Have space for the first message of a call over gRPC; waits for its turn."""
        return self._arriving.turn(owner_of_call(context), size)

    @contextmanager
    def grpc_stream_of(self, owner: str, size: int) -> Iterator[str | None]:
        """Have a place for a stream of runs over gRPC, and space for its largest message, in the
        block; yields the reason of a refusal.
        """
        with self.stream_of(owner) as full:
            if full is not None:
                yield full
                return
            what = "streams of runs over gRPC"
            with self._admitted(self.stream_bytes, what, owner, size) as full:
                yield full and f"{full}: give the bookie a port for frames (--listen-runs)"

    @contextmanager
    def _admitted(
        self, quota: Quota, what: str, owner: str, amount: int = 1
    ) -> Iterator[str | None]:
        refusal = self._take(quota, what, owner, amount)
        try:
            yield refusal
        finally:
            if refusal is None:
                quota.give_back(owner, amount)

    def _take(self, quota: Quota, what: str, owner: str, amount: int = 1) -> str | None:
        """Take an amount for a peer; return the reason of a refusal."""
        if quota.take(owner, amount):
            return None
        amount = quota.fit(amount)
        reason = f"{quota.size // amount} {what} are open"
        if quota.held(owner) + amount > quota.peer_max:
            most = quota.peer_max // amount
            reason = f"{most} {what} of {owner or 'this client'} are open"
        self.refusals.count(what.partition(" ")[0], reason)
        return reason

    @property
    def first_message_seconds(self) -> float:
        return self.limits.first_message_seconds

    @property
    def admits_all(self) -> bool:
        """Whether each peer may do everything."""
        return self._doorkeeper is None

    def admits(self, identity: Identity, action: Action, ledger: LedgerId | None = None) -> bool:
        """Return whether a call needs no `permit`: it is known to be permitted."""
        return self._doorkeeper is None or self._doorkeeper.admits(identity, action, ledger)

    async def permit(
        self, identity: Identity, action: Action, ledger: LedgerId | None = None
    ) -> None:
        """Return when a peer may carry out an action. Raises as `Doorkeeper.check`."""
        if self._doorkeeper is None or self._doorkeeper.admits(identity, action, ledger):
            return
        try:
            await self._doorkeeper.check(identity, action, ledger)
        except NotPermittedError:
            self.refusals.counts["rights"] += 1  # the doorkeeper has said it in its log
            raise

    def check_reader(self, identity: Identity, request: Any) -> None:
        """Raise `UnauthorizedError` for a read of a ledger whose reads need its key, unless the
        request has it. A bookie that proves its id needs none: it copies entries for others.
        """
        if self._lets_read is None or identity.bookie is not None:
            return
        key = request.key or getattr(request, "fence_key", b"")
        if not self._lets_read(request.ledger, key):
            self.refusals.count("rights", f"reads of ledger {request.ledger} need its password")
            raise UnauthorizedError(request.ledger)

    def now(self) -> float:
        """Return the loop's clock, which traces are noted by."""
        return asyncio.get_running_loop().time()

    def in_use(self) -> LedgerUses:
        """Return the connections that use the bookie's ledgers now."""
        return self.uses.told(self.now())

    def expect(self, bookie: BookieId) -> None:
        """Raise `WrongBookieError` for a call that is meant for another bookie."""
        if bookie != self.bookie_id:
            raise WrongBookieError("the server", f"bookie {bookie}", f"bookie {self.bookie_id}")

    @property
    def is_draining(self) -> bool:
        """Whether nothing new is let in."""
        return self._draining

    def refuse_when_draining(self) -> None:
        """Raise `BookieUnavailableError` once `drain` was called."""
        if self._draining:
            raise BookieUnavailableError(self.bookie_id, "it is shutting down")

    def failure(self, error: BaseException) -> pb.Failure:
        """Turn an error into an answer; an error with secret details goes to the log."""
        failure = encode_failure(error, self.bookie_id)
        if is_internal(failure):
            self._internal.tell(error)
        return failure
