"""The answers of a bookie to requests of Apache's clients, but for adds (client_stream.py).

The storage is the port `Bookie`, so fences, keys and durability are as for quire's
clients. The differences stay on the safe side:

  - A fence is durable before any answer to its request leaves, a refusal included (B6).
  - The highest explicit LAC wins, not the last one. READ_LAC of a ledger with an explicit LAC and
    without entries is OK.
  - Nothing is denied of a ledger that was dropped, or that this bookie may have lost entries of.

Invariant: the bytes of an answer count among the gathered ones while the storage is asked for them,
and not while a long poll waits. `answer` returns in the step that ends this.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from itertools import takewhile
from typing import Final, Protocol

from quire.bookie import READ_ANSWER_BYTES_MAX, READ_BYTES_MAX, LedgerTail, UseKind, list_all
from quire.bookkeeper.serving.codec3 import encode_availability
from quire.bookkeeper.serving.request import LAST, ClientRequest, Reply, RequestKind
from quire.bookkeeper.status import Status, status_of
from quire.bookkeeper.wire3 import FRAME_BYTES_MAX
from quire.entry import ENTRY_MAX, HEADER, EntryId, LedgerId
from quire.errors import (
    BookieUnavailableError,
    ClientRefusedError,
    InvalidRequestError,
    NoSuchEntryError,
    QuireError,
    UnauthorizedError,
)
from quire.rights.calls import BOOKKEEPER
from quire.rights.roles import Action
from quire.run import pack_run, split_run
from quire.storage.serving.limits import Reception
from quire.wire.identity import ANONYMOUS, Identity

WAIT_SECONDS_MAX: Final = 600.0
"""Longest time a long poll is held."""


class Storage(Protocol):
    """The questions of the protocols to a bookie, beside the port `Bookie`."""

    def lac(self, ledger: LedgerId) -> EntryId:
        """Return the highest LAC in anything held of a ledger, read from headers unverified."""
        ...

    async def force(self, ledger: LedgerId) -> None:
        """Return when everything accepted before is durable."""
        ...


def action_of(request: ClientRequest) -> Action | None:
    """Return the action that a request asks for; None if each peer may have it answered."""
    if request.fences or request.recovery:
        return Action.RECOVER
    return BOOKKEEPER[request.kind]


class Answers:
    """The answers to one peer. See the module."""

    def __init__(
        self,
        reception: Reception,
        storage: Storage,
        owner: str = "",
        peer: str = "",
        identity: Identity = ANONYMOUS,
        refusal: str | None = None,
    ) -> None:
        """`refusal` says why the peer is not served, None if it is."""
        self._refusal = refusal
        self._reception = reception
        self._bookie = reception.bookie
        self._storage = storage
        self._owner = owner
        self._peer = peer
        self._identity = identity

    async def permit(self, request: ClientRequest) -> None:
        """Return when the peer may have a request carried out. Raises as `Reception.permit`,
        `ClientRefusedError` when it is not served, and `BookieUnavailableError` while the bookie
        ends.
        """
        self._reception.refuse_when_draining()
        action = action_of(request)
        if action is None:
            return
        if self._refusal is not None:
            self._reception.refusals.count("tls", f"{self._peer}: {self._refusal}")
            raise ClientRefusedError(self._reception.bookie_id, self._refusal)
        await self._judge(request, action)

    async def _judge(self, request: ClientRequest, action: Action) -> None:
        about = None if request.ledger < 0 else request.ledger
        await self._reception.permit(self._identity, action, about)
        if action in (Action.READ, Action.RECOVER) and request.kind is not RequestKind.ADD:
            self._reception.check_reader(self._identity, request)

    async def answer(self, request: ClientRequest) -> Reply:
        """Return the answer to a request; an error is a status."""
        try:
            await self.permit(request)
            reply = await self._carry_out(request)
            if action_of(request) is Action.READ:
                # Again: the ledger may have begun meanwhile, or the right may be gone.
                await self._judge(request, Action.READ)
        except Exception as error:
            return self.refusal(error)
        return reply

    def refusal(self, error: Exception) -> Reply:
        """Return the answer that an error is. A defect goes to the log."""
        if not isinstance(error, QuireError):
            self._reception.failure(error)
        return Reply(status_of(error), is_bare=isinstance(error, ClientRefusedError))

    async def _carry_out(self, request: ClientRequest) -> Reply:
        match request.kind:
            case RequestKind.READ:
                return await self._read(request)
            case RequestKind.WAIT:
                return await self._wait(request)
            case RequestKind.BATCH_READ:
                return await self._batch(request)
            case RequestKind.WRITE_LAC:
                await self._bookie.write_lac(request.ledger, request.key or b"", request.body)
            case RequestKind.READ_LAC:
                return await self._read_lac(request.ledger)
            case RequestKind.FORCE:
                with self._reception.syncs.take(self._owner):
                    await self._storage.force(request.ledger)
            case RequestKind.LIST_ENTRIES:
                return await self._list(request.ledger)
            case RequestKind.INFO:
                info = await self._bookie.info()
                total, free = info.disk_total_bytes, info.disk_free_bytes
                return Reply(Status.OK, total=total, free=free)
            case RequestKind.START_TLS | RequestKind.UNKNOWN:
                return Reply(Status.BAD_REQUEST)
        return Reply(Status.OK)

    async def _read(self, request: ClientRequest) -> Reply:
        key = _fence_key(request)
        if request.entry == LAST:
            frame = await self._last(request.ledger, key)
        else:
            frame = await self._entry(request.ledger, request.entry, key)
        # Not beside a fence: a recovery must not take it for the end.
        lac = None if request.fences else self._storage.lac(request.ledger)
        return Reply(Status.OK, body=frame, lac=lac)

    async def _entry(self, ledger: LedgerId, entry: EntryId, key: bytes | None = None) -> bytes:
        ((_, frame),) = split_run(await self._run(ledger, entry, entry, key, READ_BYTES_MAX))
        return frame

    async def _run(
        self, ledger: LedgerId, first: EntryId, last: EntryId, key: bytes | None, bytes_max: int
    ) -> bytes:
        async with self._gathering(FRAME_BYTES_MAX):  # the first entry comes whole
            with self._reception.reads.take(self._owner):
                run = await self._bookie.read(
                    ledger, first, last, fence_key=key, bytes_max=bytes_max
                )
        kind = UseKind.READS if key is None else UseKind.RECOVERS
        self._reception.uses.note(ledger, kind, self._peer, self._reception.now())
        return run

    def _gathering(self, bytes_max: int = READ_BYTES_MAX) -> AbstractAsyncContextManager[None]:
        """Have space in the block for bytes that the storage is asked for; waits for its turn."""
        return self._reception.gathering.turn(self._owner, bytes_max)

    async def _tail(self, ledger: LedgerId, key: bytes | None = None) -> LedgerTail:
        async with self._gathering(FRAME_BYTES_MAX):
            with self._reception.tails.take(self._owner):
                return await self._bookie.read_tail(ledger, fence_key=key)

    async def _last(self, ledger: LedgerId, key: bytes | None) -> bytes:
        """Return the last frame held. Raises as `Bookie.read` when nothing is held."""
        while True:
            tail = await self._tail(ledger, key)
            if tail.frame is not None:
                return tail.frame
            await self._check_empty(ledger)  # else an entry came meanwhile

    async def _check_empty(self, ledger: LedgerId) -> None:
        """Raise the error that denies every entry of a ledger, if nothing is held."""
        await self._run(ledger, 0, ENTRY_MAX, None, 1)

    async def _wait(self, request: ClientRequest) -> Reply:
        ledger, above, lac = request.ledger, request.above, self._storage.lac(request.ledger)
        if lac <= above:
            with suppress(NoSuchEntryError):  # a ledger that was never seen is not waited for
                await self._check_empty(ledger)
            seconds = min(request.milliseconds / 1000, WAIT_SECONDS_MAX)
            uses = self._reception.uses
            with self._reception.waits.take(self._owner), uses.waiting(ledger, self._peer):
                lac = (await self._bookie.wait_tail(ledger, above, seconds)).hint
        if lac > above:
            with suppress(QuireError):  # with striping another bookie has it
                frame = await self._entry(ledger, above + 1)
                return Reply(Status.OK, entry=above + 1, body=frame, lac=lac)
        return Reply(Status.OK, lac=lac)

    async def _batch(self, request: ClientRequest) -> Reply:
        first, key = request.entry, _fence_key(request)
        count = request.entries if request.entries > 0 else ENTRY_MAX
        last = min(first + count - 1, ENTRY_MAX)
        wanted = request.bytes_max if request.bytes_max > 0 else READ_ANSWER_BYTES_MAX
        bytes_max = min(wanted, READ_ANSWER_BYTES_MAX)
        run = await self._run(request.ledger, first, last, key, bytes_max)
        held = enumerate(split_run(run), first)
        frames = [frame for wanted, (entry, frame) in takewhile(_is_next, held)]
        return Reply(
            Status.OK,
            body=pack_run(frames or [await self._entry(request.ledger, first)]),
        )

    async def _read_lac(self, ledger: LedgerId) -> Reply:
        tail = await self._tail(ledger)
        if tail.frame is None and tail.lac_packet is None:
            await self._check_empty(ledger)
        return Reply(Status.OK, body=tail.frame or b"", packet=tail.lac_packet or b"")

    async def _list(self, ledger: LedgerId) -> Reply:
        async with self._gathering():
            with self._reception.lists.take(self._owner):
                ranges = await list_all(partial(self._bookie.list_entries, ledger))
        if not ranges:
            await self._check_empty(ledger)
        body = encode_availability(ranges)
        if len(body) > FRAME_BYTES_MAX:
            reason = f"the ids that it holds of ledger {ledger} fill {len(body)} bytes"
            raise BookieUnavailableError(self._reception.bookie_id, reason)
        return Reply(Status.OK, body=body)


def _is_next(held: tuple[EntryId, tuple[EntryId, bytes]]) -> bool:
    wanted, (entry, _) = held
    return wanted == entry


def _fence_key(request: ClientRequest) -> bytes | None:
    if not request.fences:
        return None
    if request.key is None:
        raise UnauthorizedError(request.ledger)
    return request.key


def check_add(request: ClientRequest) -> None:
    """Raise `InvalidRequestError` for an add with a frame of another entry, or too short: the ids
    in the frame count.
    """
    if len(request.body) < HEADER.size:
        raise InvalidRequestError(
            f"a frame of {len(request.body)} bytes: it has {HEADER.size} bytes at least"
        )
    ledger, entry, _, _ = HEADER.unpack_from(request.body)
    if (ledger, entry) != (request.ledger, request.entry):
        raise InvalidRequestError(
            f"the frame is entry {entry} of ledger {ledger}, and was sent as entry "
            f"{request.entry} of {request.ledger}"
        )
