"""A connection for subscriptions in memory: a client's end, and a bookie's `NewsStream`.

Messages are serialized by the real codec, and arrive in order. A test may break the connection, and
look at what passed.
"""

from __future__ import annotations

import asyncio
from typing import Any

from quire.ledger.news_link import NewsLink
from quire.ledger.subscription import Subscription
from quire.storage.serving.limits import Reception
from quire.storage.serving.subscriptions import NewsStream, decode_subscriptions
from quire.wire import bookie_pb2 as pb
from quire.wire.news import decode_news_reply
from quire.wire.run_calls import StreamOverError
from quire.wire.transport import EOF
from tests.support.memory_cluster import LocalBookie


class NewsPipe:
    """Implements `NewsCall` for the client, and `NewsContext` for the bookie."""

    end = None
    stream = ""

    def __init__(self, reception: Reception, *, is_offered: bool = True) -> None:
        self.requests: list[pb.NewsRequest] = []
        self.replies: list[pb.NewsReply] = []
        self._offers = is_offered
        self._there: asyncio.Queue[Any] = asyncio.Queue()
        self._back: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._over: str | None = None
        self.serving = asyncio.create_task(self._serve(reception))

    async def _serve(self, reception: Reception) -> None:
        context = _BookiesEnd(self)
        await NewsStream(reception, context).serve()
        self._back.put_nowait(None)

    async def is_offered(self) -> bool:
        """See `NewsCall.is_offered`."""
        return self._offers

    async def write(self, *parts: bytes) -> None:
        """See `NewsCall.write`."""
        if self._over is not None:
            raise StreamOverError(self._over)
        request = decode_subscriptions(b"".join(parts))
        self.requests.append(request)
        self._there.put_nowait(request)

    async def read(self) -> pb.NewsReply | None:
        """See `NewsCall.read`."""
        message = await self._back.get()
        if message is not None:
            return decode_news_reply(message)
        if self._over is not None:
            raise StreamOverError(self._over)
        return None

    def cancel(self) -> None:
        """See `NewsCall.cancel`."""
        self.break_off("closed by the client")

    def break_off(self, reason: str) -> None:
        """End the connection: both ends hear of it."""
        if self._over is None:
            self._over = reason
            self._there.put_nowait(EOF)
            self._back.put_nowait(None)

    async def closed(self) -> None:
        """End the connection; return when the bookie's end has ended."""
        self.cancel()
        await asyncio.gather(self.serving, return_exceptions=True)

    @property
    def news(self) -> list[pb.News]:
        """All news that the bookie sent."""
        return [each for reply in self.replies for each in reply.news]


class _BookiesEnd:
    def __init__(self, pipe: NewsPipe) -> None:
        self._pipe = pipe

    async def read(self) -> Any:
        return await self._pipe._there.get()

    async def write(self, message: pb.NewsReply) -> None:
        self._pipe.replies.append(message)
        self._pipe._back.put_nowait(message.SerializeToString())

    def end(self) -> None:
        self._pipe.break_off("connection reset")


class PushingBookie(LocalBookie):
    """A link to a bookie in memory, with subscriptions. It tells its connections to the test."""

    def __init__(self, bookie: str = "memory") -> None:
        super().__init__(bookie)
        self.pipes: list[NewsPipe] = []
        self.offers = True
        self._link = NewsLink(bookie, self._open, timeout=5.0)

    def _open(self) -> NewsPipe:
        reception = Reception(self, self.bookie)
        self.pipes.append(NewsPipe(reception, is_offered=self.offers))
        return self.pipes[-1]

    async def subscribe(
        self, ledger: int, above: int, first: int, quiet: float
    ) -> Subscription | None:
        """See `Subscribable.subscribe`."""
        return await self._link.subscribe(ledger, above, first, quiet)

    async def close(self) -> None:
        """End all connections."""
        await self._link.close()
        for pipe in self.pipes:
            await pipe.closed()
