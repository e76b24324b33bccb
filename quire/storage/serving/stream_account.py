"""The account of one stream of runs into a bookie: all of its steps that wait for nothing.

A message's runs pass through `take_in`, which stops where a run has to wait: the stream waits
(add_stream.py), and goes on from there. Here is neither a task nor a coroutine, so the module can
be compiled (compiling.py).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

from quire.bookie import UseKind
from quire.entry import LedgerId
from quire.errors import InvalidRequestError, QuireError
from quire.requests import TRACE, run_id
from quire.rights.calls import RUN
from quire.run import peek
from quire.storage.serving.limits import Reception
from quire.storage.serving.offered_run import OfferedRun
from quire.storage.serving.run_taker import RunTaker
from quire.storage.serving.uses import StreamUses
from quire.wire import bookie_pb2 as pb
from quire.wire.identity import Identity

RUN_COST: Final = 16 * 1024
"""Bytes that a run counts for beside its own. A refused run costs time: with this a peer gets a
share of each turn of the loop, 8,192 runs by default, however many streams it has.
"""


class Origin(NamedTuple):
    """Where a stream comes from."""

    peer: str = ""
    """Its client, as the transport knows it."""
    stream: str = ""
    """The id that the client gave the stream; runs are named by it and their numbers."""
    owner: str = ""
    """The name under which the client shares limits with its other streams."""


NOWHERE: Final = Origin()


class RunWait:
    """Why a run goes no further in this step: it needs space, or a permission.

    Args:
        run: the run.
        size: its bytes.
        cost: the amount that it takes of its peer's share.
        has_space: whether it has space and its share; if not, it waits for both.
    """

    __slots__ = ("cost", "denial", "has_space", "run", "size")

    def __init__(self, run: pb.AddRun, size: int, cost: int, has_space: bool) -> None:
        self.run = run
        self.size = size
        self.cost = cost
        self.has_space = has_space
        self.denial: QuireError | None = None
        """Why the run is refused, once the stream has asked."""


class RunSlot(OfferedRun):
    """One run between its arrival and its acknowledgement. The run of an explicit LAC is empty."""

    __slots__ = ("answer", "cost", "done", "failure")

    def __init__(
        self,
        arrived: float,
        ledger: LedgerId,
        key: bytes,
        run: bytes,
        recovery: bool,
        finish: Callable[[RunSlot, Exception | None], None],
        cost: int,
    ) -> None:
        super().__init__(arrived, ledger, key, run, recovery, partial(finish, self))
        self.cost = cost
        """The amount that it takes of its peer's share."""
        self.done = False
        self.failure: pb.Failure | None = None
        self.answer: asyncio.Future[None] | None = None
        """None for a run that was taken in one step."""


class StreamAccount:
    """The runs of one stream, by their numbers.

    Numbers grow by one per run. Runs up to `acknowledged` have their answer sent; the answer of
    those below the first of `slots` is on its way; `received` is the number of the last slot.
    """

    def __init__(
        self, reception: Reception, identity: Identity, origin: Origin, uses: StreamUses
    ) -> None:
        self._reception = reception
        self._identity = identity
        self._origin = origin
        self._uses = uses
        self._now = asyncio.get_running_loop().time
        self._taker = reception.bookie if isinstance(reception.bookie, RunTaker) else None
        self._pending = reception.pending
        self._bytes = 0
        self._is_over = False
        self.slots: deque[RunSlot] = deque()
        self.received = 0
        self.acknowledged = 0
        self.charged = 0
        """The cost of the runs in flight."""
        self.ready: Final = asyncio.Event()
        """Set when the first slot is done."""

    @property
    def is_settled(self) -> bool:
        """Whether the first slot is done: its run can be answered."""
        return bool(self.slots) and self.slots[0].done

    def take_in(
        self, request: pb.AddRequest, acknowledging: asyncio.Future[None]
    ) -> Iterator[RunWait | None]:
        """Start the runs of a message. Yields the wait of the next one, or None when the runs
        have no answer any more: `acknowledging` has ended.

        Raises `InvalidRequestError` and `WrongBookieError`.
        """
        owner, admits_all = self._origin.owner, self._reception.admits_all
        if self.received == 0:
            self._reception.expect(request.bookie)
        if request.first != self.received + 1 or not request.runs:
            raise InvalidRequestError(
                f"message with {len(request.runs)} runs starts at number {request.first}, "
                f"not {self.received + 1}"
            )
        arrived, offers = self._now(), list[RunSlot]()
        for run in request.runs:
            data = run.run  # each look at it makes a copy
            cost = self._pending.fit(len(data) + RUN_COST)
            if not (self.has_room(len(data)) and self._pending.take(owner, cost)):
                self._offer(offers)
                yield RunWait(run, len(data), cost, has_space=False)
            self.charged += cost
            if acknowledging.done():
                yield None
            slot = RunSlot(arrived, run.ledger, run.key, data, run.recovery, self._finish, cost)
            is_admitted = admits_all or self._admits(run)
            if is_admitted and not run.deferred and not run.HasField("lac_packet"):
                self._expect(slot)
                offers.append(slot)
                continue
            self._offer(offers)
            denial: QuireError | None = None
            if not is_admitted:
                wait = RunWait(run, len(data), cost, has_space=True)
                yield wait
                denial = wait.denial
            self._expect(slot)
            self._start(slot, partial(self._begin_other, run, slot), denial)
        self._offer(offers)

    def has_room(self, size: int) -> bool:
        """Return whether a run of so many bytes has space in the stream."""
        limits = self._reception.limits
        return self.received - self.acknowledged < limits.runs_per_stream and (
            not self.slots or self._bytes + size <= limits.bytes_per_stream
        )

    def discharge(self, cost: int) -> None:
        """Give back what runs took of their peer's share."""
        self.charged -= cost
        self._pending.give_back(self._origin.owner, cost)

    def _admits(self, run: pb.AddRun) -> bool:
        return self._reception.admits(self._identity, RUN.action_of(run), run.ledger)

    def _expect(self, slot: RunSlot) -> None:
        """Give a run the next number."""
        self.slots.append(slot)
        self._bytes += len(slot.run)
        self.received += 1

    def _offer(self, offers: list[RunSlot]) -> None:
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
        slot: RunSlot,
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

    def _begin(self, slot: RunSlot) -> Awaitable[None]:
        bookie = self._reception.bookie
        return bookie.add(slot.ledger, slot.key, slot.run, recovery=slot.recovery)

    def _begin_other(self, run: pb.AddRun, slot: RunSlot) -> Awaitable[None]:
        bookie = self._reception.bookie
        if run.HasField("lac_packet"):
            return bookie.write_lac(slot.ledger, slot.key, run.lac_packet)
        return bookie.add(
            slot.ledger, slot.key, slot.run, recovery=slot.recovery, deferred=run.deferred
        )

    def _answered(self, slot: RunSlot, answer: asyncio.Future[None]) -> None:
        if not answer.cancelled():
            self._finish(slot, answer.exception())

    def _finish(self, slot: RunSlot, error: BaseException | None) -> None:
        if self._is_over:
            return
        if error is not None:
            slot.failure = self._reception.failure(error)
        else:
            kind = UseKind.RECOVERS if slot.recovery else UseKind.WRITES
            self._uses.note(slot.ledger, kind, slot.arrived)
        slot.done = True
        if self.slots and slot is self.slots[0]:
            self.ready.set()

    def tell_slow(self, settled: list[RunSlot], last: int) -> None:
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

    def collect(self, settled: list[RunSlot]) -> pb.AddReply:
        """Take the settled runs off the front and return the reply that answers all of them."""
        number, cost = self.received - len(self.slots), 0
        reply = pb.AddReply()
        while self.slots and self.slots[0].done:
            slot = self.slots.popleft()
            settled.append(slot)
            self._bytes -= len(slot.run)
            cost += slot.cost
            number += 1
            if slot.failure is not None:
                reply.failures.append(pb.AddFailure(number=number, failure=slot.failure))
        self.discharge(cost)
        reply.settled = number
        return reply

    def end(self) -> list[asyncio.Future[None]]:
        """Note no outcomes any more; return the answers that are under way."""
        self._is_over = True
        return [slot.answer for slot in self.slots if slot.answer is not None]
