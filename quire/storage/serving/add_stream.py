"""One stream of runs into a bookie, however its messages travel.

Runs are started in order, each without waiting for the one before to be durable: that is
what fills the journal's groups. The runs of a message are offered to the bookie together, as far as
they have space; a run that the bookie does not take in that step is started alone, and the rest is
offered again. Runs are acknowledged in order, all that became durable in the
meantime by one message. An explicit LAC takes the place of a run: a call of its own would cost its
two sides more than the entry that it confirms.

Not here: transports (grpc_service.py, run_listener.py), and the limits of all calls (limits.py).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from quire.bookie import UseKind
from quire.entry import LedgerId
from quire.errors import InvalidRequestError, QuireError, WrongBookieError
from quire.requests import TRACE, run_id
from quire.rights.calls import RUN
from quire.run import peek
from quire.storage.serving.limits import Reception
from quire.storage.serving.run_taker import OfferedRun, RunTaker
from quire.storage.serving.uses import StreamUses
from quire.wire import bookie_pb2 as pb
from quire.wire.adds import decode_request
from quire.wire.identity import ANONYMOUS, Identity
from quire.wire.reads import NoMessageError
from quire.wire.transport import EOF

RUN_COST: Final = 16 * 1024
"""Bytes that a run counts for beside its own. A refused run costs time: with this a peer gets a
share of each turn of the loop, 8,192 runs by default, however many streams it has.
"""


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


class Origin(NamedTuple):
    """Where a stream comes from."""

    peer: str = ""
    """Its client, as the transport knows it."""
    stream: str = ""
    """The id that the client gave the stream; runs are named by it and their numbers."""
    owner: str = ""
    """The name under which the client shares limits with its other streams."""


NOWHERE: Final = Origin()


class _Slot(OfferedRun):
    """One run between its arrival and its acknowledgement. The run of an explicit LAC is empty."""

    __slots__ = ("answer", "cost", "done", "failure")

    def __init__(
        self,
        arrived: float,
        ledger: LedgerId,
        key: bytes,
        run: bytes,
        recovery: bool,
        finish: Callable[[_Slot, Exception | None], None],
        cost: int,
    ) -> None:
        super().__init__(arrived, ledger, key, run, recovery, partial(finish, self))
        self.cost = cost
        """The amount that it takes of its peer's share."""
        self.done = False
        self.failure: pb.Failure | None = None
        self.answer: asyncio.Future[None] | None = None
        """None for a run that was taken in one step."""


class AddStream:
    """One stream of runs: starts each in order, acknowledges them in order.

    Numbers grow by one per run. Runs up to `_acknowledged` have their answer sent; the answer of
    those below the first of `_slots` is on its way; `_received` is the number of the last slot.
    """

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
        self._now = asyncio.get_running_loop().time
        self._context = context
        self._identity = identity
        self._slots: deque[_Slot] = deque()
        self._received = 0
        self._acknowledged = 0
        self._bytes = 0
        self._taker = reception.bookie if isinstance(reception.bookie, RunTaker) else None
        self._is_over = False
        self._pending = reception.pending
        self._charged = 0
        """The cost of the runs in flight."""
        self._refusal: pb.Failure | None = None
        self._ready = asyncio.Event()
        self._room = asyncio.Event()

    @property
    def runs_in_flight(self) -> int:
        return self._received - self._acknowledged

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
            self._ready.set()
            await asyncio.gather(acknowledging, return_exceptions=True)
        finally:
            self._is_over = True
            answers = [slot.answer for slot in self._slots if slot.answer is not None]
            for future in (acknowledging, *answers):
                future.cancel()
            self._discharge(self._charged)
            await asyncio.gather(acknowledging, *answers, return_exceptions=True)

    async def _receive(self, acknowledging: asyncio.Task[None]) -> None:
        owner, admits_all = self._origin.owner, self._reception.admits_all
        while (request := await self._context.read()) is not EOF:
            if self._received == 0:
                self._reception.expect(request.bookie)
            if request.first != self._received + 1 or not request.runs:
                raise InvalidRequestError(
                    f"message with {len(request.runs)} runs starts at number {request.first}, "
                    f"not {self._received + 1}"
                )
            arrived, offers = self._now(), list[_Slot]()
            for run in request.runs:
                data = run.run  # each look at it makes a copy
                cost = self._pending.fit(len(data) + RUN_COST)
                if not (self._has_room(len(data)) and self._pending.take(owner, cost)):
                    self._offer(offers)
                    if not await self._space(len(data), cost, acknowledging):
                        return
                self._charged += cost
                if acknowledging.done():
                    return
                slot = _Slot(arrived, run.ledger, run.key, data, run.recovery, self._finish, cost)
                is_admitted = admits_all or self._admits(run)
                if is_admitted and not run.deferred and not run.HasField("lac_packet"):
                    self._expect(slot)
                    offers.append(slot)
                    continue
                self._offer(offers)
                denial = None if is_admitted else await self._denial(run)
                self._expect(slot)
                self._start(slot, partial(self._begin_other, run, slot), denial)
            self._offer(offers)

    def _has_room(self, size: int) -> bool:
        limits = self._reception.limits
        return self._received - self._acknowledged < limits.runs_per_stream and (
            not self._slots or self._bytes + size <= limits.bytes_per_stream
        )

    async def _space(self, size: int, cost: int, acknowledging: asyncio.Task[None]) -> bool:
        """Wait until a run has room in the stream and its cost in its peer's share. Return False
        when the stream has ended meanwhile, and nothing is charged.
        """
        while not self._has_room(size):
            await self._wait_for_room()
            if acknowledging.done():
                return False
        await self._pending.wait(self._origin.owner, cost)
        return True

    async def _wait_for_room(self) -> None:
        self._room.clear()
        await self._room.wait()

    def _discharge(self, cost: int) -> None:
        self._charged -= cost
        self._pending.give_back(self._origin.owner, cost)

    def _admits(self, run: pb.AddRun) -> bool:
        return self._reception.admits(self._identity, RUN.action_of(run), run.ledger)

    async def _denial(self, run: pb.AddRun) -> QuireError | None:
        """Return why the peer may not send a run. Only the first of a ledger may take a while."""
        try:
            await self._reception.permit(self._identity, RUN.action_of(run), run.ledger)
        except QuireError as error:
            return error
        return None

    def _expect(self, slot: _Slot) -> None:
        """Give a run the next number."""
        self._slots.append(slot)
        self._bytes += len(slot.run)
        self._received += 1

    def _offer(self, offers: list[_Slot]) -> None:
        """Start runs in one step, and empty their list."""
        taker, at = self._taker, 0
        while at < len(offers):
            if taker is not None and not self._reception.is_draining:
                at = taker.take(offers, at)
            if at < len(offers):
                self._start(offers[at], partial(self._begin, offers[at]))
                at += 1
        offers.clear()

    def _start(
        self,
        slot: _Slot,
        begin: Callable[[], Awaitable[None]],
        denial: QuireError | None = None,
    ) -> None:
        """Start a run that may have to wait, or is refused."""
        try:
            if denial is not None:
                raise denial
            self._reception.refuse_when_draining()
            TRACE.set(slot)  # for the parts that the run passes, until the next run
            adding = begin()
        except Exception as error:
            self._finish(slot, error)
        else:
            slot.answer = asyncio.ensure_future(adding)
            slot.answer.add_done_callback(partial(self._answered, slot))

    def _begin(self, slot: _Slot) -> Awaitable[None]:
        bookie = self._reception.bookie
        return bookie.add(slot.ledger, slot.key, slot.run, recovery=slot.recovery)

    def _begin_other(self, run: pb.AddRun, slot: _Slot) -> Awaitable[None]:
        bookie = self._reception.bookie
        if run.HasField("lac_packet"):
            return bookie.write_lac(slot.ledger, slot.key, run.lac_packet)
        return bookie.add(
            slot.ledger, slot.key, slot.run, recovery=slot.recovery, deferred=run.deferred
        )

    def _answered(self, slot: _Slot, answer: asyncio.Future[None]) -> None:
        if not answer.cancelled():
            self._finish(slot, answer.exception())

    def _finish(self, slot: _Slot, error: BaseException | None) -> None:
        if self._is_over:
            return
        if error is not None:
            slot.failure = self._reception.failure(error)
        else:
            kind = UseKind.RECOVERS if slot.recovery else UseKind.WRITES
            self._uses.note(slot.ledger, kind, slot.arrived)
        slot.done = True
        if self._slots and slot is self._slots[0]:
            self._ready.set()

    async def _acknowledge(self) -> None:
        while self._refusal is None:
            await self._ready.wait()
            self._ready.clear()
            while self._slots and self._slots[0].done:
                settled: list[_Slot] = []
                reply = self._collect(settled)
                await self._context.write(reply)
                self._tell_slow(settled, reply.settled)
                self._acknowledged = reply.settled
                self._room.set()
                self._reception.settled()
        await self._context.write(pb.AddReply(refusal=self._refusal))

    def _tell_slow(self, settled: list[_Slot], last: int) -> None:
        """Log the runs that took long, of those just answered. The first one waited longest: if it
        did not, none did.
        """
        slow, now = self._reception.slow, self._now()
        if now - settled[0].arrived < slow.seconds:
            return
        peer, stream, _ = self._origin
        for number, slot in enumerate(settled, last - len(settled) + 1):
            _, entry = peek(slot.run) or (None, None)
            about = {"bookie": self._reception.bookie_id, "ledger": slot.ledger, "entry": entry}
            about["peer"] = peer
            slow.tell("add" if slot.run else "write_lac", slot, now, run_id(stream, number), about)

    def _collect(self, settled: list[_Slot]) -> pb.AddReply:
        """Take the settled runs off the front and return the reply that answers all of them."""
        number, cost = self._received - len(self._slots), 0
        reply = pb.AddReply()
        while self._slots and self._slots[0].done:
            slot = self._slots.popleft()
            settled.append(slot)
            self._bytes -= len(slot.run)
            cost += slot.cost
            number += 1
            if slot.failure is not None:
                reply.failures.append(pb.AddFailure(number=number, failure=slot.failure))
        self._discharge(cost)
        reply.settled = number
        return reply
