"""A client's link for reads, with connections whose bookies say what a test puts in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from quire.ledger.read_link import (
    ReadLink,
)
from quire.wire import bookie_pb2 as pb
from quire.wire.codec import encode_failure
from quire.wire.framed_reads import (
    Question,
    decode_question,
    encode_answer,
    encode_failed,
)
from quire.wire.run_calls import StreamOverError
from tests.support.virtual import virtually

TIMEOUT = 2.0
SIZE_MAX = 1000
ASKED = pb.ReadRequest(bookie="b1", ledger=7, first=3, last=9)

Offer = bool | float | Exception | tuple[float, Exception] | None
"""None: it never says hello. A number: it does after so many seconds, or answers otherwise then."""


class Call:
    """A connection whose bookie says what the test puts in."""

    end = None

    def __init__(self, offer: Offer = True) -> None:
        self._offer = offer
        self.asked: list[Question] = []
        self.said: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.is_cancelled = False
        self.ended = asyncio.Event()
        self.is_stuck = False
        """Whether nothing leaves any more."""
        self.over: StreamOverError | None = None
        self._met: asyncio.Future[None] | None = None

    async def is_offered(self) -> bool:
        await self._hello(0.001)
        if self._offer is None:
            await self._hello(1000)
        if type(self._offer) is float:
            await self._hello(self._offer)
        if isinstance(self._offer, tuple):
            await self._hello(self._offer[0])
            raise self._offer[1]
        if isinstance(self._offer, Exception):
            raise self._offer
        return bool(self._offer)

    async def _hello(self, seconds: float) -> None:
        """Take some time, or until the connection is given up."""
        self._met = asyncio.get_running_loop().create_future()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._met, seconds)
            raise StreamOverError("closed by the client")

    async def write(self, *parts: bytes) -> None:
        if self.is_stuck:
            await self.ended.wait()
        if self.is_cancelled:
            raise StreamOverError("closed by the client")
        if self.over is not None:
            raise self.over
        self.asked.append(decode_question(b"".join(parts)))

    async def read(self) -> bytes | None:
        said = await self.said.get()
        if isinstance(said, Exception):
            raise said
        return said

    def say(self, number: int, run: bytes) -> None:
        for pieces in encode_answer(number, run):
            self.said.put_nowait(b"".join(pieces))

    def fail(self, number: int, error: Exception) -> None:
        self.said.put_nowait(b"".join(encode_failed(number, encode_failure(error, "b1"))))

    def cancel(self) -> None:
        self.is_cancelled = True
        self.ended.set()
        if self._met is not None and not self._met.done():
            self._met.set_result(None)
        self.said.put_nowait(StreamOverError("closed by the client"))


class Scene:
    """A link, and the calls that it opened."""

    def __init__(self, *offers: Offer, timeout: float = TIMEOUT) -> None:
        self._offers = offers
        self.calls: list[Call] = []
        self.outdated: list[Call] = []
        self.link = ReadLink(
            "b1", self._open, timeout, SIZE_MAX, lambda call: call in self.outdated
        )

    def _open(self) -> Call:
        at = len(self.calls)
        self.calls.append(Call(self._offers[at] if at < len(self._offers) else True))
        return self.calls[-1]

    def read(self, request_id: str = "") -> asyncio.Task[bytes | None]:
        return asyncio.create_task(self.link.read(ASKED, request_id))

    async def reading(self, count: int = 1) -> list[asyncio.Task[bytes | None]]:
        """Return reads that were asked."""
        found = [self.read() for _ in range(count)]
        await asyncio.sleep(0.01)
        return found


def now() -> float:
    return asyncio.get_running_loop().time()


Body = Callable[[Scene], Awaitable[None]]


def linked(body: Body, *offers: Offer, timeout: float = TIMEOUT) -> None:
    async def main() -> None:
        scene = Scene(*offers, timeout=timeout)
        before = asyncio.all_tasks()
        await body(scene)
        await scene.link.close()
        assert all(each.is_cancelled for each in scene.calls)
        await asyncio.sleep(0.01)
        assert asyncio.all_tasks() == before, "no task is left"

    virtually(main)
