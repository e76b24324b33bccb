"""One connection of a client: frames in, and answers in the order of the requests.

Batches of producers are worked on while earlier ones are under way, so that a connection is not
limited to one sync at a time. Everything else waits for its turn, as in Kafka.

Invariant: a producer's batches are appended and answered, unless the connection breaks or the
gateway's grace is over. So a producer that asks for no answers may close as soon as it has sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeAlias

from quire.aio.tasks import Tasks, first_of
from quire.aio.timing import time_limit
from quire.errors import InvalidRequestError, QuireError
from quire.gateway.answers import GatewayError
from quire.gateway.kafka.messages import FRAME_BYTES_MAX, PRODUCE, Header, decode_request

PIPELINED_MAX: Final = 16
"""Requests of one connection that are worked on at the same time."""

GRACE_SECONDS: Final = 5.0
"""Appends under way may take so long when a connection ends."""

Answer: TypeAlias = Callable[[Header, Any], Awaitable[bytes | None]]
"""Returns the frame that answers a request; None: it has none."""

_log = logging.getLogger(__name__)


class KafkaConnection:
    """A connection, until either side ends it.

    `admits` tells of a request's key whether it is answered now; other keys end the connection.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answer: Answer,
        admits: Callable[[int], bool],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._answer = answer
        self._admits = admits
        self._answers: asyncio.Queue[asyncio.Task[None] | None] = asyncio.Queue()
        self._places = asyncio.Semaphore(PIPELINED_MAX)
        self._frames: dict[asyncio.Task[None], bytes | None] = {}
        """What requests under way were answered with, until it is written."""
        self._tasks = Tasks()
        self._is_ended = asyncio.Event()

    def end(self) -> None:
        """Take no further request; appends under way are still answered."""
        self._is_ended.set()

    async def serve(self) -> None:
        """Answer requests until the connection ends."""
        writing = self._tasks.start(self._write(), "writes to a client of Kafka")
        try:
            await first_of(self._read(), self._is_ended.wait(), _over(writing))
            self._answers.put_nowait(None)
            with suppress(TimeoutError):
                async with time_limit(GRACE_SECONDS):
                    await _over(writing)
        finally:
            await self._tasks.stop()
            self._writer.close()

    async def _read(self) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while (message := await self._frame()) is not None:
                try:
                    header, body = decode_request(message)
                except InvalidRequestError as error:
                    _log.warning("a client of Kafka's port: %s", error)
                    return
                if not self._admits(header.api_key):
                    return
                await self._places.acquire()
                task = self._tasks.start(self._carry_out(header, body), "answers a client of Kafka")
                self._answers.put_nowait(task)
                if header.api_key != PRODUCE:
                    await self._in_turn(task)

    async def _frame(self) -> bytes | None:
        size = int.from_bytes(await self._reader.readexactly(4), signed=True)
        if 0 < size <= FRAME_BYTES_MAX:
            return await self._reader.readexactly(size)
        _log.warning("a client of Kafka's port sent a message of %d bytes", size)
        return None

    async def _in_turn(self, task: asyncio.Task[None]) -> None:
        """Wait for a request that does not append: when the connection ends, it is given up."""
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            raise

    async def _carry_out(self, header: Header, body: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            self._frames[task] = await self._answer(header, body)
        except (QuireError, GatewayError) as error:
            _log.warning("a connection of Kafka's port ends: %s", error)
        except Exception:
            _log.exception("a request of key %d ends its connection", header.api_key)

    async def _write(self) -> None:
        """Write answers in the order of requests, until one fails or all are written."""
        with suppress(ConnectionError):
            while (task := await self._answers.get()) is not None:
                await asyncio.wait([task])
                self._places.release()
                if task not in self._frames:
                    return
                frame = self._frames.pop(task)
                if frame is not None:
                    self._writer.write(frame)
                    await self._writer.drain()


async def _over(task: asyncio.Task[None]) -> None:
    """Wait for the end of a task, which goes on if the wait is cancelled."""
    await asyncio.wait([task])
