"""One connection of a client: frames in, and answers in the order of the requests.

Batches of producers are worked on while earlier ones are under way, so that a connection is not
limited to one sync at a time. Likewise commits of offsets: waiting commits are written together
(commits.py). Everything else waits for its turn, as in Kafka.

Invariants:
  - A producer's batches are appended and answered, unless the connection breaks or the gateway's
    grace is over. So a producer that asks for no answers may close as soon as it has sent. Likewise
    commits of offsets.
  - Other requests begin after the commits before them, so a client reads its own commits.
  - A request has space before its bytes are read (space.py). A client that stalls loses the
    connection, and the space, after `FRAME_SECONDS` or `ANSWER_SECONDS`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias

from quire.aio.tasks import Tasks, first_of
from quire.aio.timing import time_limit
from quire.errors import InvalidRequestError, QuireError
from quire.gateway.answers import GatewayError
from quire.gateway.kafka.messages import (
    FIRST_BYTES_MAX,
    FRAME_BYTES_MAX,
    OFFSET_COMMIT,
    OPEN,
    PRODUCE,
    Header,
    decode_request,
)
from quire.gateway.space import Space

PIPELINED_MAX: Final = 16
"""Requests of one connection that are worked on at the same time, but for commits of offsets."""

COMMITS_MAX: Final = 128
"""Commits of offsets likewise. Kafka's Java client sends 100 before it waits for an answer."""

CONNECTION_BYTES_MAX: Final = 2 * FRAME_BYTES_MAX
"""Bytes of one connection's requests under way: one is worked on while the next one comes."""

LOGIN_SECONDS: Final = 10.0
"""A client logs in within so long; where that is not needed, it sends its first request."""

FRAME_SECONDS: Final = 60.0
"""A request comes within so long after its first bytes."""

ANSWER_SECONDS: Final = 60.0
"""A client takes an answer within so long."""

IDLE_SECONDS: Final = 600.0
"""A connection without a request for so long is closed, as by Kafka. Clients make another."""

CLOSE_SECONDS: Final = 5.0
"""A closed connection has so long to send what it holds."""

GRACE_SECONDS: Final = 5.0
"""Appends under way may take so long when a connection ends."""

Answer: TypeAlias = Callable[[Header, Any], Awaitable[bytes | None]]
"""Returns the frame that answers a request; None: it has none."""

_log = logging.getLogger(__name__)


class _UnderWay(NamedTuple):
    key: int
    """The request's kind."""
    size: int
    """Its bytes."""
    task: asyncio.Task[None]


class KafkaConnection:
    """A connection, until either side ends it.

    Args:
        reader: the requests of the client.
        writer: the answers to it.
        answer: answers a request.
        is_known: whether the client has logged in, or need not.
        space: bytes of all connections.
        spoke: called once, when the client has logged in and sent a request.
        pause: returns how many seconds a request of this key has to wait.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answer: Answer,
        is_known: Callable[[], bool],
        space: Space,
        spoke: Callable[[], None],
        pause: Callable[[int], float] = lambda _: 0.0,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._answer = answer
        self._is_known = is_known
        self._space = space
        self._spoke = spoke
        self._pause = pause
        self._login_until = asyncio.get_running_loop().time() + LOGIN_SECONDS
        self._has_spoken = False
        self._answers: asyncio.Queue[_UnderWay | None] = asyncio.Queue()
        self._places = asyncio.Semaphore(PIPELINED_MAX)
        self._commit_places = asyncio.Semaphore(COMMITS_MAX)
        self._held = 0
        self._freed = asyncio.Event()
        self._frames: dict[asyncio.Task[None], bytes | None] = {}
        """What requests under way were answered with, until it is written."""
        self._tasks = Tasks()
        self._commits: set[asyncio.Task[None]] = set()
        """Commits of offsets under way."""
        self._is_ended = asyncio.Event()
        self._is_stalled = False
        """The client takes no answers: the rest is dropped."""

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
            self._space.give_back(self._held)
            await self._close()

    async def _close(self) -> None:
        """Close the connection. A client that takes no bytes holds it no longer than a moment."""
        if self._is_stalled:
            self._writer.transport.abort()
        self._writer.close()
        try:
            async with time_limit(CLOSE_SECONDS):
                await self._writer.wait_closed()
        except (OSError, TimeoutError):
            self._writer.transport.abort()

    async def _read(self) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            try:
                while await self._request():
                    pass
            except TimeoutError:
                _log.info("a client of Kafka's port was silent for too long")
            except (InvalidRequestError, GatewayError) as error:
                _log.warning("a client of Kafka's port: %s", error)

    async def _request(self) -> bool:
        """Take one request. Return whether another one may follow."""
        async with time_limit(self._patience(IDLE_SECONDS)):
            size = int.from_bytes(await self._reader.readexactly(4), signed=True)
        most = FRAME_BYTES_MAX if self._is_known() else FIRST_BYTES_MAX
        if not 0 < size <= most:
            raise InvalidRequestError(f"a request of {size} bytes: 1 to {most} are taken")
        await self._take(size)
        async with time_limit(self._patience(FRAME_SECONDS)):
            message = await self._reader.readexactly(size)
        header, body = decode_request(message)
        if not (self._is_known() or header.api_key in OPEN):
            return False  # as Kafka does before the client has logged in
        if self._is_known() and not self._has_spoken:
            self._has_spoken = True
            self._spoke()
        await asyncio.sleep(self._pause(header.api_key))
        if self._commits and header.api_key != OFFSET_COMMIT:
            await asyncio.wait(self._commits)
        await self._places_for(header.api_key).acquire()
        task = self._tasks.start(self._carry_out(header, body), "answers a client of Kafka")
        self._answers.put_nowait(_UnderWay(header.api_key, size, task))
        if header.api_key == OFFSET_COMMIT:
            self._commits.add(task)
            task.add_done_callback(self._commits.discard)
        elif header.api_key != PRODUCE:
            await self._in_turn(task)
        return True

    def _places_for(self, key: int) -> asyncio.Semaphore:
        return self._commit_places if key == OFFSET_COMMIT else self._places

    def _patience(self, seconds: float) -> float:
        """Return how long to wait for the client: before its login, for all that it does."""
        if self._has_spoken:
            return seconds
        return max(0.0, self._login_until - asyncio.get_running_loop().time())

    async def _take(self, size: int) -> None:
        """Have space for a request, first of the connection's own, then of the port's."""
        while self._held and self._held + size > CONNECTION_BYTES_MAX:
            self._freed.clear()
            await self._freed.wait()
        await self._space.take(size)
        self._held += size

    def _give_back(self, size: int) -> None:
        self._held -= size
        self._space.give_back(size)
        self._freed.set()

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
        with suppress(ConnectionError, TimeoutError):
            while (next_one := await self._answers.get()) is not None:
                key, size, task = next_one
                await asyncio.wait([task])
                if task not in self._frames:
                    return
                self._places_for(key).release()
                frame = self._frames.pop(task)
                self._give_back(size)
                if frame is not None:
                    await self._send(frame)

    async def _send(self, frame: bytes) -> None:
        """Write an answer; its bytes count until the client has taken it."""
        self._space.hold(len(frame))
        self._held += len(frame)
        try:
            self._writer.write(frame)
            self._is_stalled = True
            async with time_limit(ANSWER_SECONDS):
                await self._writer.drain()
            self._is_stalled = False
        finally:
            self._give_back(len(frame))


async def _over(task: asyncio.Task[None]) -> None:
    """Wait for the end of a task, which goes on if the wait is cancelled."""
    await asyncio.wait([task])
