"""Streams of a gateway: found, created, appended to, read, deleted.

A stream is a log. Its writer is the log's owner among the gateways, so appends are judged one after
the other there; each carries the state of the stream after it, and is judged by the state of the
append before it, confirmed or not: if that one is lost, so is the writer, and with it this one.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

from quire.aio.timing import time_limit
from quire.client import Client
from quire.errors import ConflictError, LogReplacedError, NotFoundError
from quire.gateway.answers import NotReadyError
from quire.gateway.durable.asking import Sender
from quire.gateway.durable.numbers import Judged, Verdict, judge, name_of, number_of
from quire.gateway.durable.refusals import ProtocolAnswerError, no_stream
from quire.gateway.durable.state import (
    STATE,
    Closer,
    StreamState,
    decode_state,
    is_over,
    media_type,
    offset_text,
)
from quire.gateway.owners import Owners
from quire.gateway.reads import PAGE_BYTES_MAX
from quire.log.leader.log import Log
from quire.log.records.attributes import NewRecord
from quire.log.records.position import BEGINNING, Record, Start
from quire.log.records.producers import ProducerSequence

USED_MAX: Final = 10_000
"""Streams with a time to live: the last use of so many is remembered. The others begin anew."""

ID_BYTES: Final = 8


class FoundStream(NamedTuple):
    """A stream and its end."""

    state: StreamState
    end: int
    """The offset of the log's next record."""


class _SeenStream(NamedTuple):
    """The last use of a stream that this gateway knows."""

    id: str
    end: int
    at: float
    """The event loop's time."""


class AppendAnswer(NamedTuple):
    """What became of an append."""

    is_new: bool
    end: int
    is_closed: bool
    judged: Judged | None = None


class _Tail:
    """The end of a stream that this gateway writes."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.state: StreamState | None = None
        """After the last append that was queued. Without one it is unknown, or there is not any."""


class Streams:
    """The streams of one gateway."""

    def __init__(
        self,
        client: Client,
        owners: Owners,
        wait_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        """`clock` tells Unix seconds, for streams with an end in time."""
        self.clock = clock
        self._client = client
        self._owners = owners
        self._wait_seconds = wait_seconds
        self._tails: WeakKeyDictionary[Log, _Tail] = WeakKeyDictionary()
        self._written: WeakValueDictionary[str, Log] = WeakValueDictionary()
        self._used: OrderedDict[str, _SeenStream] = OrderedDict()

    # -- finding -----------------------------------------------------------------------------------

    async def find(self, name: str, *, is_use: bool = True) -> FoundStream:
        """Return a stream as it is after all appends that were answered.

        Raises:
            ProtocolAnswerError: it does not exist, or its time is over. Then it is deleted.
            QuireError: the errors of reading.
        """
        try:
            found = await self._look(name)
        except NotFoundError:
            raise no_stream(name) from None
        if found is None:
            raise no_stream(name)
        if is_use:
            self._use(name, found)
        return found

    async def _look(self, name: str, *, replaces: bool = False) -> FoundStream | None:
        """Return a stream, None if there is none or its time is over.

        A stream with a time to live is deleted then. One with a date stays for a clock that is put
        right, until a stream `replaces` it.
        """
        end = (await self._client.log_end(name, linearizable=True)).offset
        if not end:
            return None
        (last,) = await self.records(name, end - 1, end)
        state = decode_state(last)
        if state is None:
            raise ProtocolAnswerError(
                409, "no_stream", f"log {name!r} has records of another kind: use /v1/logs"
            )
        found = FoundStream(state, end)
        if await self._is_over(name, found):
            is_kept = state.expires is not None and not replaces
            if is_kept or await self._removed_if_at(name, found):
                return None
            return await self._look(name, replaces=replaces)
        return found

    async def _is_over(self, name: str, found: FoundStream) -> bool:
        """Return whether the time of a stream is over, by the state that it was created with.

        A later record may be of a client that may append, and not delete.
        """
        state, end = found
        used = self._used.get(name)
        if used is None or (used.id, used.end) != (state.id, end):
            used = self._use(name, found)  # first seen so
        idle = asyncio.get_running_loop().time() - used.at
        if not is_over(state, self.clock(), idle):
            return False
        first = decode_state((await self.records(name, None, 1))[0])
        return first is not None and first.has_times_of(state)

    async def records(self, name: str, first: int | None, end: int) -> list[Record]:
        """Return the records from an offset on, None: from the first one, up to an end, or as many
        as fit an answer. All of them are in the log.
        """
        found: list[Record] = []
        size = 0
        start: Start = BEGINNING if first is None else first
        try:
            async with (
                time_limit(self._wait_seconds),
                self._client.read_log(name, start, follow=True) as reader,
            ):
                async for record in reader:
                    found.append(record)
                    size += len(record.payload)
                    if record.offset + 1 >= end or size >= PAGE_BYTES_MAX:
                        break
        except TimeoutError:
            raise NotReadyError(name, "its records did not come in time") from None
        return found

    async def wait(self, name: str, end: int, seconds: float) -> bool:
        """Wait for a record at an offset. Return whether it has come."""
        with suppress(TimeoutError):
            async with (
                time_limit(seconds),
                self._client.read_log(name, end, follow=True) as reader,
            ):
                async for _ in reader:
                    return True
        return False

    # -- changing ----------------------------------------------------------------------------------

    async def create(
        self, name: str, wanted: StreamState, payloads: Sequence[bytes]
    ) -> tuple[bool, FoundStream]:
        """Create a stream, or find it. Return whether it is new.

        Raises `ProtocolAnswerError` where it exists with other properties.
        """
        try:
            found = await self._look(name, replaces=True)
        except NotFoundError:
            await self._finish_removal(name)
        else:
            if found is not None:
                return False, _same(name, found, wanted)
        async with self._owners.writer(name) as log:
            tail = self._tail(log, name)
            async with tail.turn:
                if await self._loaded(tail, name) is not None:
                    await log.drain()  # the append that creates it may be under way
                    found = await self.find(name)
                    return False, _same(name, found, wanted)
                state = replace(wanted, id=secrets.token_hex(ID_BYTES))
                records = _with_state([], state)  # the first record, whatever follows it
                if payloads:
                    records += _with_state(payloads, state)
                future = await log.submit_many(records)
                tail.state = state
            places = await future
        found = FoundStream(state, places[-1].offset + 1)
        self._use(name, found)
        return True, found

    async def append(
        self,
        name: str,
        content_type: str | None,
        payloads: Sequence[bytes] | None,
        sequence: str | None,
        sender: Sender | None,
        closes: bool,
    ) -> AppendAnswer:
        """Append, close, or both. `payloads` is None for a request without a body.

        Raises:
            ProtocolAnswerError: the stream does not take it.
            QuireError, GatewayError: the errors of appending.
        """
        await self._check_there(name)
        async with self._owners.writer(name) as log:
            tail = self._tail(log, name)
            async with tail.turn:
                state = await self._loaded(tail, name)
                if state is None:
                    raise no_stream(name)
                judged = None
                if sender is not None:
                    judged = judge(sender, log.last_sequence(name_of(sender.producer)))
                if state.is_closed:
                    await log.drain()  # the append that closes it may be under way
                    end = (await self._client.log_end(name, linearizable=True)).offset
                    if (payloads is None and closes) or _has_closed(state, sender):
                        return AppendAnswer(False, end, True, judged)
                    raise _closed(name, end)
                _check_type(name, state, content_type, payloads)
                if judged is not None and judged.verdict is not Verdict.NEW:
                    if judged.verdict is not Verdict.REPEATED:
                        raise _out_of_turn(judged, sender)
                    future = None
                else:
                    state = _after(name, state, sequence, sender, closes)
                    stamp = None
                    if sender is not None:
                        stamp = ProducerSequence(name_of(sender.producer), number_of(sender))
                    records = _with_state(payloads or [], state)
                    future = await log.submit_many(records, producer_sequence=stamp)
                    tail.state = state
            if future is None:
                await log.drain()  # the first request may be under way
                end = (await self._client.log_end(name, linearizable=True)).offset
                self._use(name, FoundStream(state, end))
                return AppendAnswer(False, end, False, judged)
            places = await future
        self._use(name, FoundStream(state, places[-1].offset + 1))
        if judged is not None and sender is not None:
            judged = Judged(Verdict.NEW, sender.epoch, sender.sequence)
        return AppendAnswer(True, places[-1].offset + 1, state.is_closed, judged)

    async def delete(self, name: str) -> None:
        """Delete a stream. Raises `ProtocolAnswerError` if it does not exist."""
        if await self._finish_removal(name):
            return
        await self.find(name)
        async with self._owners.writer(name) as log:
            pass  # another gateway's writer would not know
        await self._remove(name, log)

    async def _removed_if_at(self, name: str, found: FoundStream) -> bool:
        """Delete a stream whose time is over. Return False if records came meanwhile: a use."""
        async with self._owners.writer(name) as log:
            await log.drain()  # appends of this gateway may be under way
            end = (await self._client.log_end(name, linearizable=True)).offset
        if end != found.end:
            self._use(name, FoundStream(found.state, end))
            return False
        await self._remove(name, log)
        return True

    async def _remove(self, name: str, log: Log) -> None:
        """Delete a stream that this gateway has written as the last one.

        Raises `NotReadyError` if another gateway took it over meanwhile: its appends were answered.
        """
        await self._owners.give_up(name)
        try:
            await self._client.delete_log(name, led=log)
        except (ConflictError, LogReplacedError):
            raise NotReadyError(name, "it was taken over while it was deleted") from None
        self._used.pop(name, None)

    async def _finish_removal(self, name: str) -> bool:
        """Delete the rest of a log whose deletion was interrupted: readers find no log there, and
        no gateway can write it. Return whether there was such a log.
        """
        try:
            info = await self._client.log_info(name)
            if info.is_being_deleted:
                await self._client.delete_log(name, led=info)
        except (NotFoundError, LogReplacedError):
            return False  # another gateway has done it
        return info.is_being_deleted

    async def _check_there(self, name: str) -> None:
        """Raise `ProtocolAnswerError` without a log: its writer would create it."""
        if name not in self._written:
            try:
                await self._client.log_info(name)
            except NotFoundError:
                raise no_stream(name) from None

    def _tail(self, log: Log, name: str) -> _Tail:
        self._written[name] = log
        tail = self._tails.get(log)
        if tail is None:
            tail = self._tails[log] = _Tail()
        return tail

    async def _loaded(self, tail: _Tail, name: str) -> StreamState | None:
        """Return the state after the appends that are queued, None without a stream."""
        state = tail.state
        if state is None:
            found = await self._look(name)
            tail.state = None if found is None else found.state
        else:
            used = self._used.get(name)
            known = FoundStream(state, 0 if used is None else used.end)  # appends are under way
            if await self._is_over(name, known) and (
                state.expires is not None or await self._removed_if_at(name, known)
            ):
                tail.state = None
        return tail.state

    def _use(self, name: str, found: FoundStream) -> _SeenStream:
        """Note that a stream with a time to live is used now."""
        use = _SeenStream(found.state.id, found.end, asyncio.get_running_loop().time())
        if found.state.ttl is not None:
            self._used[name] = use
            self._used.move_to_end(name)
            while len(self._used) > USED_MAX:
                self._used.popitem(last=False)
        return use


def _same(name: str, found: FoundStream, wanted: StreamState) -> FoundStream:
    if not found.state.is_created_by(wanted):
        raise ProtocolAnswerError(
            409, "conflict", f"stream {name!r} exists with another type, time to live or closing"
        )
    return found


def _with_state(payloads: Sequence[bytes], state: StreamState) -> list[bytes | NewRecord]:
    """Return the records of an append: the last one has the state."""
    *before, last = payloads or [b""]
    return [*before, NewRecord(last, headers={STATE: state.encode()})]


def _has_closed(state: StreamState, sender: Sender | None) -> bool:
    return sender is not None and state.closer == (sender.producer, sender.epoch, sender.sequence)


def _closed(name: str, end: int) -> ProtocolAnswerError:
    headers = {"Stream-Closed": "true", "Stream-Next-Offset": offset_text(end)}
    return ProtocolAnswerError(409, "closed", f"stream {name!r} is closed", headers)


def _check_type(
    name: str, state: StreamState, content_type: str | None, payloads: Sequence[bytes] | None
) -> None:
    if payloads is None:
        return
    if content_type is None or media_type(content_type) != media_type(state.content_type):
        raise ProtocolAnswerError(
            409, "other_type", f"stream {name!r} has {state.content_type}, not {content_type}"
        )


def _after(
    name: str, state: StreamState, sequence: str | None, sender: Sender | None, closes: bool
) -> StreamState:
    """Return the state after an append. Raises `ProtocolAnswerError` for a low `Stream-Seq`."""
    if sequence is not None:
        if state.sequence is not None and sequence.encode() <= state.sequence.encode():
            raise ProtocolAnswerError(
                409,
                "sequence_conflict",
                f"Stream-Seq {sequence!r} is not above {state.sequence!r}, the last of {name!r}",
            )
        state = replace(state, sequence=sequence)
    return state.closed_by(None if sender is None else Closer(*sender)) if closes else state


def _out_of_turn(judged: Judged, sender: Sender | None) -> ProtocolAnswerError:
    """Return the answer to an append of a producer that does not follow its last one."""
    assert sender is not None, "it was judged"
    verdict, epoch, sequence = judged
    if verdict is Verdict.STALE:
        return ProtocolAnswerError(
            403,
            "stale_epoch",
            f"epoch {sender.epoch} of producer {sender.producer!r} is over: it has {epoch}",
            {"Producer-Epoch": str(epoch)},
        )
    if verdict is Verdict.NOT_FROM_ZERO:
        return ProtocolAnswerError(400, "invalid_request", "a new epoch begins with Producer-Seq 0")
    headers = {
        "Producer-Expected-Seq": str(sequence + 1),
        "Producer-Received-Seq": str(sender.sequence),
    }
    message = f"producer {sender.producer!r} sent {sender.sequence} after {sequence}"
    return ProtocolAnswerError(409, "sequence_conflict", message, headers)
