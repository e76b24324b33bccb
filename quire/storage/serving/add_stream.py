"""One stream of runs into a bookie, however its messages travel.

Runs are started in order, each without waiting for the one before to be durable: that is
what fills the journal's groups. They are acknowledged in order, all that became durable in the
meantime by one message. An explicit LAC takes the place of a run: a call of its own would cost its
two sides more than the entry that it confirms.

Not here: transports (grpc_service.py, run_listener.py), and the limits of all calls (limits.py).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from contextlib import closing
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from quire.bookie import UseKind
from quire.entry import LedgerId
from quire.errors import InvalidRequestError, QuireError, WrongBookieError
from quire.requests import TRACE, Trace, run_id
from quire.rights.calls import RUN
from quire.run import peek
from quire.storage.serving.limits import Reception
from quire.storage.serving.run_taker import RunTaker
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


class _Slot(Trace):
    """One run between its arrival and its acknowledgement."""

    __slots__ = ("answer", "cost", "done", "failure", "kind", "ledger", "run", "size")

    def __init__(
        self, arrived: float, ledger: LedgerId, size: int, cost: int, kind: UseKind
    ) -> None:
        super().__init__(arrived)
        self.cost = cost
        """The amount that it takes of its peer's share."""
        self.kind = kind
        self.ledger = ledger
        self.run = b""
        """Empty for an explicit LAC."""
        self.size = size
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
            arrived = self._now()
            for run in request.runs:
                data = run.run  # each look at it makes a copy
                while not self._has_room(len(data)):
                    await self._wait_for_room()
                    if acknowledging.done():
                        return
                cost = self._pending.fit(len(data) + RUN_COST)
                if not self._pending.take(owner, cost):
                    await self._pending.wait(owner, cost)
                self._charged += cost
                if acknowledging.done():
                    return
                denial = None
                if not admits_all:
                    denial = await self._denial(run)
                self._start(run, data, cost, denial, arrived)

    def _has_room(self, size: int) -> bool:
        limits = self._reception.limits
        return self._received - self._acknowledged < limits.runs_per_stream and (
            not self._slots or self._bytes + size <= limits.bytes_per_stream
        )

    async def _wait_for_room(self) -> None:
        self._room.clear()
        await self._room.wait()

    def _discharge(self, cost: int) -> None:
        self._charged -= cost
        self._pending.give_back(self._origin.owner, cost)

    async def _denial(self, run: pb.AddRun) -> QuireError | None:
        """Return why the peer may not send a run. Only the first of a ledger may take a while."""
        action = RUN.action_of(run)
        if self._reception.admits(self._identity, action, run.ledger):
            return None
        try:
            await self._reception.permit(self._identity, action, run.ledger)
        except QuireError as error:
            return error
        return None

    def _start(
        self, run: pb.AddRun, data: bytes, cost: int, denial: QuireError | None, arrived: float
    ) -> None:
        kind = UseKind.RECOVERS if run.recovery else UseKind.WRITES
        slot = _Slot(arrived, run.ledger, len(data), cost, kind)
        self._slots.append(slot)
        self._bytes += slot.size
        self._received += 1
        try:
            if denial is not None:
                raise denial
            self._reception.refuse_when_draining()
            TRACE.set(slot)  # for the parts that the run passes, until the next run
            if self._is_taken(run, data, slot):
                return
            adding = self._begin(run, data, slot)
        except Exception as error:
            self._finish(slot, error)
        else:
            slot.answer = asyncio.ensure_future(adding)
            slot.answer.add_done_callback(partial(self._answered, slot))

    def _is_taken(self, run: pb.AddRun, data: bytes, slot: _Slot) -> bool:
        """Return whether the bookie took a run in one step: the slot is told of its end."""
        if self._taker is None or run.deferred or run.HasField("lac_packet"):
            return False
        slot.run = data
        told = partial(self._finish, slot)
        return self._taker.take(slot.ledger, run.key, data, run.recovery, told)

    def _begin(self, run: pb.AddRun, data: bytes, slot: _Slot) -> Awaitable[None]:
        bookie = self._reception.bookie
        if run.HasField("lac_packet"):
            return bookie.write_lac(run.ledger, run.key, run.lac_packet)
        slot.run = data
        return bookie.add(slot.ledger, run.key, data, recovery=run.recovery, deferred=run.deferred)

    def _answered(self, slot: _Slot, answer: asyncio.Future[None]) -> None:
        if not answer.cancelled():
            self._finish(slot, answer.exception())

    def _finish(self, slot: _Slot, error: BaseException | None) -> None:
        if self._is_over:
            return
        if error is not None:
            slot.failure = self._reception.failure(error)
        else:
            self._uses.note(slot.ledger, slot.kind, slot.arrived)
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
            self._bytes -= slot.size
            cost += slot.cost
            number += 1
            if slot.failure is not None:
                reply.failures.append(pb.AddFailure(number=number, failure=slot.failure))
        self._discharge(cost)
        reply.settled = number
        return reply
