"""The logs that this gateway writes: elected, taken over, given up.

A log has one election: `Client.lead_log` uses the same by default. So gateways share a log with
each other and with services: one candidate at a time writes it. A gateway stands when a request
comes for a log that no candidate leads, and gives the log up when no request came for a while, or
when it ends. A gateway's name as a candidate is `gateway URL`, then `HOST:PORT` with the address
for Kafka's clients and `grpc=HOST:PORT`, where it has them: others send clients there.

Invariants:
  - Only the winner of the election appends, through the log that it took over as such.
  - A log is closed before its leadership ends: the next gateway needs no recovery, and every
    request under way has its answer.
  - Requests have a log's writer in the order in which they came, however long each looks for the
    leader or waits: the batches of a client's requests keep their order.
  - Safety does not depend on any of this: a log that was taken over refuses its former writer
    (docs/protocol.md, C4 and C5).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from quire.aio.tasks import Tasks, first_of
from quire.aio.timing import time_limit
from quire.client import Client
from quire.election.election import Leader
from quire.errors import QuireError
from quire.gateway.answers import BusyError, ElsewhereError, LedElsewhereError, NotReadyError
from quire.gateway.elections import check_log
from quire.gateway.limits import GatewayLimits
from quire.gateway.place import GatewayPlace
from quire.log.leader.log import Log
from quire.log.manifest.options import LogOptions

_log = logging.getLogger(__name__)


class Owners:
    """The logs of one gateway."""

    def __init__(
        self,
        client: Client,
        address: str,
        limits: GatewayLimits,
        options: LogOptions | None = None,
        kafka: str | None = None,
        grpc: str | None = None,
    ) -> None:
        """`address` is the URL that other gateways send clients to, `kafka` and `grpc` the
        `host:port` of this gateway for such clients.
        """
        self._client = client
        self.address = address
        self._candidate = str(GatewayPlace(address, kafka, grpc))
        self._limits = limits
        self._options = options
        self._owned: dict[str, _LedLog] = {}
        self._last: dict[str, asyncio.Future[None]] = {}
        """By log: done when the last of the requests that wait for the writer has it."""
        self._tasks = Tasks()
        self._is_ending = False

    async def leading(self, name: str) -> GatewayPlace | None:
        """Return the gateway that leads a log, None if no candidate does.

        Another program that leads it has no address.
        """
        leader = await self._client.election(name).leader()
        if leader is None:
            return None
        return GatewayPlace.named(leader.candidate) or GatewayPlace("")

    def written(self) -> list[str]:
        """Return the names of the logs that this gateway writes at this moment."""
        return sorted(name for name, owned in self._owned.items() if owned.log is not None)

    def since(self) -> dict[str, float]:
        """Return the logs that this gateway writes, and since when in the loop's time."""
        return {name: self._owned[name].led_at for name in self.written()}

    def writer(self, name: str) -> OwnedWriter:
        """Have the log's writer in an `async with` block; it is not given up meanwhile.

        Raises:
            ElsewhereError: another gateway writes the log.
            LedElsewhereError: another program than a gateway leads it.
            NotReadyError: it is being taken over or handed over.
            BusyError: this gateway writes as many logs as it may.
            InvalidRequestError: no gateway writes a log of this name.
            QuireError: the log cannot be taken over; the errors of `Client.open_log`.
        """
        return OwnedWriter(self._own, name)

    async def _own(self, name: str) -> _LedLog:
        owned = self._owned.get(name)
        before = self._last.get(name)
        if owned is not None and owned.log is not None and before is None:
            return owned
        mine = self._last[name] = asyncio.get_running_loop().create_future()
        try:
            owned = await self._found(name)
            if before is not None:
                await asyncio.wait([before])
            if owned.log is None:
                raise NotReadyError(name, "it is given up at this moment")
            return owned
        finally:
            if before is None or before.done():
                self._pass(name, mine)
            else:  # this one failed; those after it still wait for those before it
                before.add_done_callback(lambda _: self._pass(name, mine))

    def _pass(self, name: str, mine: asyncio.Future[None]) -> None:
        mine.set_result(None)
        if self._last.get(name) is mine:
            del self._last[name]

    async def _found(self, name: str) -> _LedLog:
        """Return the log once this gateway leads it."""
        await self._check_leader(name)
        owned = self._owned.get(name) or self._stand(name)
        await self._until_led(name, owned)
        return owned

    async def _check_leader(self, name: str) -> None:
        """Raise if another candidate leads the log."""
        self._raise_if_elsewhere(name, await self._client.election(name).leader())

    def _raise_if_elsewhere(self, name: str, leader: Leader | None) -> None:
        if leader is None or leader.candidate == self._candidate:
            return
        place = GatewayPlace.named(leader.candidate)
        if place is not None:
            raise ElsewhereError(name, place.url, place.grpc)
        raise LedElsewhereError(name, leader.candidate)

    def _stand(self, name: str) -> _LedLog:
        if self._is_ending:
            raise NotReadyError(name, "this gateway ends")
        if len(self._owned) >= self._limits.logs:
            raise BusyError(f"it writes {self._limits.logs} logs")
        owned = self._owned[name] = _LedLog()
        owned.task = self._tasks.start(self._lead(name, owned), f"gateway leads {name}")
        return owned

    async def _until_led(self, name: str, owned: _LedLog) -> None:
        """Wait until this gateway leads the log, or it is known that it will not."""
        try:
            async with time_limit(self._limits.takeover_seconds):
                await first_of(owned.settled.wait(), self._until_elsewhere(name))
        except TimeoutError:
            raise NotReadyError(name, "it is being taken over") from None
        except (ElsewhereError, LedElsewhereError):
            owned.stand_down()
            raise
        if owned.failure is not None:
            raise owned.failure
        if owned.log is None:
            raise NotReadyError(name, "another candidate takes it over")

    async def _until_elsewhere(self, name: str) -> None:
        async with aclosing(self._client.election(name).watch()) as leaders:
            async for leader in leaders:
                self._raise_if_elsewhere(name, leader)

    async def _lead(self, name: str, owned: _LedLog) -> None:
        """Lead the log until it is given up or lost."""
        try:
            turn = self._client.lead_log(name, self._options, candidate=self._candidate)
            async with turn as log:
                owned.log = log
                owned.led_at = asyncio.get_running_loop().time()
                owned.settled.set()
                await self._until_idle(owned)
                owned.log = None  # no request begins any more; those under way are confirmed
        except QuireError as error:
            _log.warning("log %r is not written by this gateway any more: %s", name, error)
            owned.failure = error
        finally:
            owned.log = None
            if self._owned.get(name) is owned:
                del self._owned[name]
            owned.settled.set()

    async def _until_idle(self, owned: _LedLog) -> None:
        while not owned.is_given_up:
            owned.touched.clear()
            try:
                async with time_limit(self._limits.idle_seconds):
                    await owned.touched.wait()
            except TimeoutError:
                if not owned.uses:
                    return

    async def give_up(self, name: str) -> None:
        """Give up a log in good order, if this gateway writes it."""
        owned = self._owned.get(name)
        if owned is not None and owned.task is not None:
            owned.is_given_up = True
            owned.touched.set()
            owned.stand_down()
            await asyncio.wait([owned.task])

    async def close(self) -> None:
        """Give up every log in good order: what is under way is confirmed first."""
        self._is_ending = True
        for owned in self._owned.values():
            owned.is_given_up = True
            owned.touched.set()
            owned.stand_down()
        await self._tasks.join()


class OwnedWriter:
    """A block that has a log's writer: without the generator of a context manager, because each
    request of each client has one.
    """

    __slots__ = ("_name", "_own", "_owned")

    def __init__(self, own: Callable[[str], Awaitable[_LedLog]], name: str) -> None:
        self._own = own
        self._name = name
        self._owned: _LedLog | None = None

    async def __aenter__(self) -> Log:
        """Return the writer. Raises as `Owners.writer`."""
        check_log(self._name)
        owned = self._owned = await self._own(self._name)
        owned.uses += 1
        owned.touched.set()
        assert owned.log is not None, "it was waited for"
        return owned.log

    async def __aexit__(self, *_: object) -> None:
        owned = self._owned
        assert owned is not None, "it was entered"
        owned.uses -= 1
        owned.touched.set()


class _LedLog:
    """One log that this gateway leads, or stands for."""

    def __init__(self) -> None:
        self.log: Log | None = None
        self.led_at = 0.0
        self.task: asyncio.Task[None] | None = None
        self.failure: QuireError | None = None
        self.settled = asyncio.Event()
        """It is led, or will not be."""
        self.touched = asyncio.Event()
        self.uses = 0
        self.is_given_up = False

    def stand_down(self) -> None:
        """Leave the queue of candidates, unless this gateway has begun to lead."""
        if self.log is None and not self.settled.is_set() and self.task is not None:
            self.task.cancel()
