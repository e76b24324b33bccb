"""The guard before a bookie's node: it begins a ledger only under an id that was given out.

A bookie takes the first add or fencing request for a ledger as the ledger's birth, and keeps its
key forever. Without this guard a stranger can take ids of the future, and every ledger that is
created later is refused. So a request that would make durable state for a ledger that the bookie
does not know is compared with the store's counter (docs/protocol.md, B13).

The counter is read only for an id at or above every counter read before. Ids are given out in
blocks, so one read serves many ledgers; all other requests pass after one comparison. A read counts
for a request only when it began after the request arrived: an id that was given out in between
would be missing from an older one.

Adds that wait are kept in a queue per ledger, before they take memory of the node. When the answer
is there a queue is emptied in one step, so the order of a ledger's adds is kept and no other ledger
waits.

Not here: reading the counter (deletions.py), the bookie's answers to requests (node.py).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from quire.aio.backoff import Backoff
from quire.aio.retry import retry
from quire.aio.timing import time_limit
from quire.bookie import READ_BYTES_MAX, Bookie, LedgerTail, Stride, refused
from quire.entry import BookieId, EntryId, LedgerId
from quire.errors import (
    BookieBusyError,
    BookieUnavailableError,
    InvalidRequestError,
    QuireError,
    ReadOnlyBookieError,
    RetryError,
    StoreWentBackError,
)
from quire.storage.serving.forwarding import ForwardingBookie
from quire.storage.serving.offered_run import OfferedRun

ASK_SECONDS: Final = 1.0
"""How long the first request for a ledger waits for the metadata store."""

WAITING_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of adds that wait for the store at once; further ones are refused as busy. One add may be
larger: alone it waits all the same, since a later attempt would be no better.
"""

RUN_BYTES_OVERHEAD: Final = 512
"""Cost of a waiting add besides its bytes."""

BACKOFF: Final = Backoff(first=0.1, last=0.1)
"""The pause between two attempts to read the counter: adds wait for it."""


class Births(Protocol):
    """Port: which ids were given out."""

    async def born_below(self) -> LedgerId:
        """Return the lowest id that was not given out yet. Raises `QuireError` when the store
        cannot say.
        """
        ...


class GivenIds(Protocol):
    """Port: whether a ledger may begin at a bookie that does not know it."""

    below: LedgerId
    """Every id below it was given out, and need not be asked about."""

    async def is_born(self, ledger: LedgerId) -> bool:
        """Tell whether an id was given out. Raises `QuireError` when the store cannot say, and
        `TimeoutError` after `ASK_SECONDS`.
        """
        ...

    async def check(self, held_below: LedgerId) -> None:
        """Raise `QuireError` when the store does not know of a ledger that was held before."""
        ...

    async def close(self) -> None:
        """End the work under way."""
        ...


class Bound:
    """The highest counter read so far, and the one read of it that is under way."""

    def __init__(self, births: Births) -> None:
        self.below: LedgerId = 0
        """Every id below it was given out."""
        self._births = births
        self._begun = 0
        self._reading: asyncio.Task[QuireError | TimeoutError | None] | None = None

    async def is_born(self, ledger: LedgerId) -> bool:
        """Tell whether an id was given out.

        Raises `QuireError` when the store cannot say, and `TimeoutError` after `ASK_SECONDS`.
        Cancelling leaves the read to the other requests that wait for it.
        """
        fresh = self._begun + 1
        while ledger >= self.below:
            if self._reading is None:
                if self._begun >= fresh:
                    return False
                self._begun += 1
                self._reading = asyncio.ensure_future(self._read())
            failure = await asyncio.shield(self._reading)
            if failure is not None:
                raise failure
        return True

    async def _read(self) -> QuireError | TimeoutError | None:
        """Read the counter; return what went wrong, for all requests that wait for it."""
        try:
            async with time_limit(ASK_SECONDS):
                await self._raise_to(self.below, self._born_below())
        except (QuireError, TimeoutError) as error:
            return error
        finally:
            self._reading = None
        return None

    async def check(self, held_below: LedgerId) -> None:
        """Raise `StoreWentBackError` when the counter is lower than an earlier one, or than what
        was found to be held before this call. Raises the store's errors.
        """
        await self._raise_to(max(self.below, held_below), self._births.born_below())

    async def _raise_to(self, least: LedgerId, reading: Awaitable[LedgerId]) -> None:
        """Take over the result of a read. `least` was known before it began: the counter grows."""
        following = await reading
        if following < least:
            raise StoreWentBackError(
                "the metadata store",
                f"its next ledger id is {following}, and ledger {least - 1} was begun before "
                f"(adopt with --at-least {least})",
            )
        self.below = max(self.below, following)

    async def _born_below(self) -> LedgerId:
        return await retry(self._births.born_below, on=RetryError, backoff=BACKOFF)

    async def close(self) -> None:
        """End the read that is under way."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)


@dataclass(slots=True)
class _Add:
    """An add that waits until its ledger's id is known to have been given out."""

    send: Callable[[], Awaitable[None]]
    size: int
    is_recovery: bool
    answer: asyncio.Future[None]


class BornBookie(ForwardingBookie):
    """Port 1: another bookie, which begins a ledger only if its id was given out.

    `knows` tells whether the bookie has a ledger already, or had it and dropped it.
    """

    def __init__(
        self,
        bookie: Bookie,
        name: BookieId,
        given: GivenIds,
        knows: Callable[[LedgerId], bool],
    ) -> None:
        super().__init__(bookie, name)
        self._bound: Final = given
        self._knows = knows
        self._queues: dict[LedgerId, deque[_Add]] = {}
        self._askers: set[asyncio.Task[None]] = set()
        self._waiting_bytes = 0

    async def check_store(self, highest: LedgerId) -> None:
        """Compare the store's counter with the highest ledger that this bookie held entries of
        before the call, −1 for none (docs/protocol.md, I1).

        Raises `StoreWentBackError` when the counter is not above it, or is lower than an earlier
        read of it; and the store's errors.
        """
        await self._bound.check(highest + 1)

    def _passes(self, ledger: LedgerId) -> bool:
        return ledger < self._bound.below or self._knows(ledger)

    def add(
        self,
        ledger: LedgerId,
        key: bytes,
        run: bytes,
        *,
        recovery: bool = False,
        deferred: bool = False,
    ) -> Awaitable[None]:
        """See `Bookie.add`. Raises `InvalidRequestError` for an id that was not given out;
        `BookieBusyError` when too many bytes wait for the store, and `ReadOnlyBookieError` (for a
        recovery `BookieUnavailableError`) when the store does not answer.
        """
        if ledger not in self._queues and self._passes(ledger):
            return super().add(ledger, key, run, recovery=recovery, deferred=deferred)
        size = len(run) + RUN_BYTES_OVERHEAD
        if self._waiting_bytes and self._waiting_bytes + size > WAITING_BYTES_MAX:
            reason = f"{self._waiting_bytes} bytes wait for the metadata store"
            return refused(BookieBusyError(self.name, reason))
        send = partial(super().add, ledger, key, run, recovery=recovery, deferred=deferred)
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue(ledger, _Add(send, size, recovery, answer))
        return answer

    def take(self, offers: Sequence[OfferedRun], first: int) -> int:
        """See `RunTaker.take`. An id that has to be asked about goes through `add`."""
        below, queues, index = self._bound.below, self._queues, first
        while index < len(offers):
            ledger = offers[index].ledger
            if ledger in queues or not (ledger < below or self._knows(ledger)):
                offers = offers[:index]
            index += 1
        return super().take(offers, first)

    def _queue(self, ledger: LedgerId, waiting: _Add) -> None:
        self._waiting_bytes += waiting.size
        queue = self._queues.get(ledger)
        if queue is not None:
            queue.append(waiting)
            return
        self._queues[ledger] = deque([waiting])
        asking = asyncio.ensure_future(self._ask(ledger))
        self._askers.add(asking)
        asking.add_done_callback(self._askers.discard)

    async def _ask(self, ledger: LedgerId) -> None:
        """Empty a ledger's queue, in order and in one step, once the store has answered."""
        failure: QuireError | None = BookieUnavailableError(self.name, "it is closed")
        try:
            failure = None if await self._bound.is_born(ledger) else _unborn(ledger)
        except (QuireError, TimeoutError) as error:
            failure = ReadOnlyBookieError(self.name, _unsaid(error))
        finally:
            queue = self._queues.pop(ledger)
            self._waiting_bytes -= sum(waiting.size for waiting in queue)
            for waiting in queue:
                if not waiting.answer.done():  # else its caller was cancelled
                    self._settle(waiting, failure)

    def _settle(self, waiting: _Add, failure: QuireError | None) -> None:
        if failure is None:
            sending = asyncio.ensure_future(waiting.send())
            sending.add_done_callback(partial(_hand_over, waiting.answer))
            return
        if waiting.is_recovery and isinstance(failure, ReadOnlyBookieError):
            failure = BookieUnavailableError(self.name, failure.reason)
        waiting.answer.set_exception(failure)

    async def _check_born(self, ledger: LedgerId) -> None:
        """Raise `InvalidRequestError` for an id that was not given out, and
        `BookieUnavailableError` when that cannot be said: neither denies an entry.
        """
        if self._passes(ledger):
            return
        try:
            is_born = await self._bound.is_born(ledger)
        except (QuireError, TimeoutError) as error:
            raise BookieUnavailableError(self.name, _unsaid(error)) from error
        if not is_born:
            raise _unborn(ledger)

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
        if fence_key is not None:
            await self._check_born(ledger)
        return await super().read(
            ledger, first, last, fence_key=fence_key, bytes_max=bytes_max, stride=stride
        )

    async def read_tail(self, ledger: LedgerId, *, fence_key: bytes | None = None) -> LedgerTail:
        """See `Bookie.read_tail`."""
        if fence_key is not None:
            await self._check_born(ledger)
        return await super().read_tail(ledger, fence_key=fence_key)

    async def write_lac(self, ledger: LedgerId, key: bytes, packet: bytes) -> None:
        """See `Bookie.write_lac`."""
        await self._check_born(ledger)
        await super().write_lac(ledger, key, packet)

    async def close(self) -> None:
        """Refuse the adds that wait; the bookie itself stays open."""
        asking = [*self._askers]
        await self._bound.close()
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


def _unborn(ledger: LedgerId) -> InvalidRequestError:
    return InvalidRequestError(
        f"ledger {ledger} cannot be begun: the metadata store has not given out its id yet"
    )


def _unsaid(error: Exception) -> str:
    why = str(error) or f"no answer in {ASK_SECONDS:g} s"
    return f"the metadata store does not say whether the ledger exists: {why}"


def _hand_over(answer: asyncio.Future[None], sent: asyncio.Future[None]) -> None:
    """Give an add's outcome to its caller, unless the caller was cancelled."""
    failure = None if sent.cancelled() else sent.exception()
    if answer.done():
        return
    if sent.cancelled():
        answer.cancel()
    elif failure is not None:
        answer.set_exception(failure)
    else:
        answer.set_result(None)
