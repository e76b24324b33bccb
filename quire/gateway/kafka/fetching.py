"""Fetch: records from an offset on, or the first ones that come.

A consumer asks again and again, each time after the last record that it has. So a connection keeps
a reader for each topic that it reads, and a question that goes on where the last answer ended needs
no new one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, suppress
from itertools import accumulate, takewhile
from typing import Any, Final

from kio.schema.errors import ErrorCode

from quire.aio.tasks import stop
from quire.client import Client
from quire.errors import QuireError
from quire.gateway.kafka.broker import PARTITION, Broker, KafkaSession
from quire.gateway.kafka.errors import fetch_code_of
from quire.gateway.kafka.messages import Fields
from quire.gateway.kafka.offsets import first_offset
from quire.gateway.kafka.records import FetchedRecord, encode_batch, fetched
from quire.gateway.kafka.served import ServedBatches
from quire.gateway.quotas import Direction
from quire.gateway.reads import PAGE_BYTES_MAX
from quire.log.reading.reader import LogReader
from quire.log.reading.segment_reader import RecordBatch
from quire.rights.roles import Action

READINGS_MAX: Final = 1000
"""Topics that one connection reads at the same time. A request that names more is refused for the
others.
"""

OPENED_MAX: Final = 16
"""Readers of one request that are opened at the same time."""

TURNS: Final = 2
"""Turns of the loop in which a batch comes that the reader has at hand."""


class TopicReading:
    """A reader of one topic, and the records that it has at hand."""

    def __init__(
        self, client: Client, served: ServedBatches, name: str, offset: int, end: int
    ) -> None:
        self.next = offset
        self.end = end
        """The end of the log, as far as it is known."""
        self._client = client
        self._served = served
        self._name = name
        self._records: deque[FetchedRecord] = deque()
        """Records at hand."""
        self._sizes: deque[int] = deque()
        """The size of each of them in an answer."""
        self._size = 0
        self._stack = AsyncExitStack()
        self._reader: LogReader | None = None
        self._batches: AsyncGenerator[RecordBatch, None] | None = None
        self._coming: asyncio.Future[RecordBatch | None] | None = None
        self._is_over = False

    async def open(self) -> None:
        """Open the reader. Raises the errors of reading."""
        reading = self._client.read_log(self._name, self.next, follow=True)
        reader = await self._stack.enter_async_context(reading)
        self._reader = reader
        self._batches = reader.read_batches()

    def coming(self) -> asyncio.Future[RecordBatch | None] | None:
        """Return the future of records to come; None if there are some, or none will come."""
        return None if self._records or self._is_over else self._next()

    def _next(self) -> asyncio.Future[RecordBatch | None]:
        if self._coming is None:
            assert self._batches is not None
            self._coming = asyncio.ensure_future(anext(self._batches, None))
        return self._coming

    async def look(self, size: int) -> bool:
        """Take the batches in that have come, up to about `size` bytes, at least one of them.

        Return whether there are records. Raises reading errors, once all records were taken.
        """
        while not self._is_over and (self._size < size or not self._records):
            coming = self._next()
            for _ in range(TURNS):
                if not coming.done():
                    await asyncio.sleep(0)
            if not coming.done() or (self._records and coming.exception() is not None):
                break
            self._coming = None
            batch = coming.result()
            if batch is None:  # the log is sealed
                self._is_over = True
            else:
                self.put(batch)
                if self._reader is not None and self._reader.log_id is not None:
                    self._served.note(self._reader.log_id, batch)
        return bool(self._records)

    def put(self, batch: RecordBatch) -> None:
        """Have a batch's records at hand, after the others."""
        records, sizes = fetched(batch)
        self._records.extend(records)
        self._sizes.extend(sizes)
        self._size += sum(sizes)
        self.end = max(self.end, batch.next_offset)

    def take(self, size: int) -> list[FetchedRecord]:
        """Return records at hand: one, and more as long as they fit."""
        fitting = takewhile(size.__ge__, accumulate(self._sizes))
        count = max(min(1, len(self._sizes)), sum(1 for _ in fitting))
        found = [self._records.popleft() for _ in range(count)]
        self._size -= sum(self._sizes.popleft() for _ in range(count))
        if found:
            self.next = found[-1].offset + 1
        return found

    async def close(self) -> None:
        """Close the reader."""
        if self._coming is not None:
            await stop(self._coming)
        if self._batches is not None:
            await self._batches.aclose()
        await self._stack.aclose()


class _FetchPart:
    """One partition of a request, and its answer."""

    def __init__(self, topic: str, asked: Any) -> None:
        self.topic = topic
        self.asked = asked
        self.code = ErrorCode.none
        self.first = -1
        self.data = b""
        self.records = 0
        self.reading: TopicReading | None = None

    def fields(self) -> Fields:
        end = -1 if self.reading is None else self.reading.end
        return {
            "partition_index": self.asked.partition,
            "error_code": self.code,
            "high_watermark": end,
            "last_stable_offset": end,
            "log_start_offset": self.first,
            "aborted_transactions": [],
            "records": self.data,
        }


async def fetch(broker: Broker, session: KafkaSession, request: Any) -> Fields:
    """Answer Fetch."""
    parts = [_FetchPart(topic.topic, each) for topic in request.topics for each in topic.partitions]
    first_of_each = {part.topic: part for part in reversed(parts)}
    chosen = [part for part in parts if first_of_each[part.topic] is part][:READINGS_MAX]
    for part in parts:
        part.code = ErrorCode.invalid_request
    await _forget(session, {part.topic for part in chosen})
    turns = asyncio.Semaphore(OPENED_MAX)
    await asyncio.gather(*(_begin(broker, session, part, turns) for part in chosen))
    budget = max(1, min(request.max_bytes, PAGE_BYTES_MAX, broker.admission.free))
    wait = min(request.max_wait.total_seconds(), broker.limits.wait_seconds)
    size = await _collect(session, parts, budget)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait
    while size < request.min_bytes and all(part.code is ErrorCode.none for part in parts):
        readings = [part.reading for part in parts if part.reading is not None]
        coming = [future for each in readings if (future := each.coming()) is not None]
        left = deadline - loop.time()
        if left <= 0:
            break
        if not coming:  # nothing will come, and clients ask again at once
            await asyncio.sleep(left)
            break
        await asyncio.wait(coming, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        size += await _collect(session, parts, budget - size)
    read = sum(part.records for part in parts)
    broker.charge(session, Direction.READ, sum(len(part.data) for part in parts), read)
    by_topic: dict[str, list[Fields]] = {}
    for part in parts:
        by_topic.setdefault(part.topic, []).append(part.fields())
    topics = [{"topic": topic, "partitions": found} for topic, found in by_topic.items()]
    return {"error_code": ErrorCode.none, "session_id": 0, "responses": topics}


async def _begin(
    broker: Broker, session: KafkaSession, part: _FetchPart, turns: asyncio.Semaphore
) -> None:
    """Find or open the reader of a partition, and have it look."""
    part.code = ErrorCode.none
    try:
        broker.check(session, Action.READ, part.topic)
        if part.asked.partition != PARTITION:
            part.code = ErrorCode.unknown_topic_or_partition
            return
        reading: TopicReading | None = session.readings.get(part.topic)
        if reading is None or reading.next != part.asked.fetch_offset:
            async with turns:
                reading = await _opened(broker, session, part)
            if reading is None:
                return
        part.reading = reading
        coming = reading.coming()
        if coming is not None and reading.next < reading.end:
            await asyncio.wait([coming], timeout=broker.limits.wait_seconds)
    except QuireError as error:
        part.code = fetch_code_of(error)


async def _opened(broker: Broker, session: KafkaSession, part: _FetchPart) -> TopicReading | None:
    """Return a new reader from the asked offset on, None if there is no such offset."""
    old = session.readings.pop(part.topic, None)
    if old is not None:
        await old.close()
    offset = part.asked.fetch_offset
    end = (await broker.client.log_end(part.topic)).offset
    if offset > end:  # acknowledged, perhaps, and not announced yet by the bookies that answered
        end = (await broker.client.log_end(part.topic, linearizable=True)).offset
    part.first = await first_offset(broker, part.topic)
    if not part.first <= offset <= end:
        part.code = ErrorCode.offset_out_of_range
        return None
    reading = TopicReading(broker.client, broker.served, part.topic, offset, end)
    await reading.open()
    session.readings[part.topic] = reading
    return reading


async def _forget(session: KafkaSession, wanted: set[str]) -> None:
    """Close the oldest readers, but for the wanted ones, so that those to come fit."""
    more = len(wanted - session.readings.keys())
    for name in [each for each in session.readings if each not in wanted]:
        if len(session.readings) + more <= READINGS_MAX:
            return
        await session.readings.pop(name).close()


async def _collect(session: KafkaSession, parts: list[_FetchPart], budget: int) -> int:
    """Take records at hand into the answer. Return their size."""
    size = 0
    for part in parts:
        reading = part.reading
        if reading is None or part.data:
            continue
        try:
            room = min(part.asked.partition_max_bytes, budget - size)
            if await reading.look(room) and budget > size:
                taken = reading.take(room)
                part.data, part.records = encode_batch(taken), len(taken)
                size += len(part.data)
        except QuireError as error:
            part.code = fetch_code_of(error)
            session.readings.pop(part.topic, None)
            await reading.close()
    return size


async def close_readings(session: KafkaSession) -> None:
    """Close the readers of a connection."""
    while session.readings:
        _, reading = session.readings.popitem()
        with suppress(QuireError):
            await reading.close()
