"""Reading ranges by batch reads, from bookies that know them: Apache's of release 4.17 and later.

One request brings as many consecutive entries as the answer has space for, and its bytes are a run
already. A batch ends before the first entry that the bookie lacks, so it denies its first entry at
most. It is for ranges of `ENTRIES_MIN` entries or more, of ensembles without stripes, without a
fence: a stripe would end every batch at its first entry, and the protocol of batches has no FORCE
to make a fence durable.

An older bookie closes the connection at the unknown request. Whether a bookie knows batches is
found out once for each connection of the third protocol, which ends when the bookie is restarted
with another release: the bookie knows none if a connection ended that had answered nothing, and
that other connection goes on. Reads that get no batch are single reads. A connection in place of
one that never stood is not waited for: each read would take as long as its caller bears.

A bookie's answer is checked: entries of another ledger, with other ids, out of order, or more than
was asked for, are left out, with all that follow them. A denial of another entry denies nothing.
Digests are checked by the reader.
"""

from __future__ import annotations

import asyncio
from typing import Final

from quire.aio.backoff import Backoff
from quire.bookkeeper.batch_connection import BatchConnection
from quire.bookkeeper.connection import BookieConnection
from quire.bookkeeper.message_stream import Endpoint
from quire.bookkeeper.protobuf import Message
from quire.bookkeeper.single_reads import WINDOW_FIRST, ErrorOf, SingleReads, WantedRange
from quire.bookkeeper.status import Status
from quire.bookkeeper.wire2 import FixedAnswer
from quire.bookkeeper.wire3 import BookieAnswer, Operation
from quire.entry import HEADER, NO_ENTRY
from quire.errors import BookieUnavailableError, CorruptEntryError, InvalidRequestError
from quire.run import FRAME_BYTES_MAX, SIZE, scan_run

ENTRIES_MIN: Final = WINDOW_FIRST
"""Fewer entries are single requests under way at once, on the connection that there is."""

RECONNECT: Final = Backoff(first=0.05, last=1.0)

_REFUSALS: Final = (Status.BAD_REQUEST, Status.BAD_VERSION, Status.UNAUTHORIZED)
"""Answers about the request or the client: the third protocol says more."""

_ANOTHER: Final = "the bookie answered with another entry, or none"


class RangeReads:
    """Reads ranges from a bookie, by batches where they serve; `error` says what an answer is."""

    def __init__(self, endpoint: Endpoint, singles: SingleReads, error: ErrorOf) -> None:
        self._endpoint = endpoint
        self._error = error
        self._singles = singles
        self._connection: BatchConnection | None = None
        self._without: BookieConnection | None = None
        """The connection of a bookie that knows no batch reads."""
        self._given_up: BookieConnection | None = None
        """The connection beside which a batch was given up before it was answered."""
        self._is_waited_for = True
        """Whether reads wait until the connection for batches stands."""
        self._failures = RECONNECT.pauses()
        self._not_before = 0.0

    async def close(self) -> None:
        """Break calls under way. Harmless when called again."""
        if self._connection is not None:
            await self._connection.close()

    async def read(
        self, link: BookieConnection, wanted: WantedRange, fence_key: bytes | None = None
    ) -> bytes:
        """Return the run of the wanted entries that are held. Raises as `Bookie.read`."""
        used = None
        if fence_key is None and suits(wanted) and self._without is not link:
            if self._given_up is link and _has_refused(self._connection):
                return await self._instead(link, wanted, True)
            used = self._batches()
        if used is None:
            return await self._singles.read(link, wanted, fence_key)
        try:
            answer = await used.read(
                *(wanted.ledger, wanted.first, wanted.last - wanted.first + 1, wanted.bytes_max)
            )
        except asyncio.CancelledError:
            self._given_up = link
            raise
        except BookieUnavailableError:
            if used.over is None:
                raise  # it is slow, and would not be faster with more requests
            return await self._instead(link, wanted, _has_refused(used))
        if answer.status in _REFUSALS:
            return await self._instead(link, wanted, True)
        return await self._taken(link, wanted, answer)

    async def _instead(
        self, link: BookieConnection, wanted: WantedRange, is_refusal: bool
    ) -> bytes:
        """Read entry by entry. After a refusal, an answer proves that the bookie is well, and knows
        no batches.
        """
        self._given_up = None
        try:
            return await self._singles.read(link, wanted)
        except (BookieUnavailableError, asyncio.CancelledError):
            is_refusal = False
            raise
        finally:
            if is_refusal and link.over is None:
                self._without = link

    def _batches(self) -> BatchConnection | None:
        """Return the connection for batches, None for a while after it broke."""
        held, now = self._connection, asyncio.get_running_loop().time()
        if held is not None and held.over is None:
            return held if held.is_open or self._is_waited_for else None
        if held is not None and held.has_answered:
            self._failures.reset()
        if held is not None and now < self._not_before:
            return None
        self._not_before = now + self._failures.next()
        self._is_waited_for = held is None or held.is_open
        self._connection = made = BatchConnection(self._endpoint)
        return made if self._is_waited_for else None

    async def _taken(
        self, link: BookieConnection, wanted: WantedRange, answer: FixedAnswer
    ) -> bytes:
        if answer.status == Status.OK:
            return sound_run(wanted, answer)
        if (answer.ledger, answer.entry) != (wanted.ledger, wanted.first):
            raise CorruptEntryError(wanted.ledger, wanted.first, _ANOTHER)
        if answer.status == Status.NO_ENTRY and wanted.first < wanted.last:
            return await self._singles.read_after_gap(link, wanted)
        raise self._error(wanted.ledger, wanted.first, _as_third(answer))


def _has_refused(connection: BatchConnection | None) -> bool:
    """Whether a connection stood, and ended before it had answered any batch."""
    return (
        connection is not None
        and connection.over is not None
        and (connection.is_open and not connection.has_answered)
    )


def suits(wanted: WantedRange) -> bool:
    """Whether a batch is the way to read a range."""
    return wanted.is_whole and wanted.last - wanted.first + 1 >= ENTRIES_MIN


def sound_run(wanted: WantedRange, answer: FixedAnswer) -> bytes:
    """Return the entries of an answer, up to the first that was not asked for or is out of place.

    Raises `CorruptEntryError` when it begins with another entry than the first.
    """
    ledger, first, bytes_max = wanted.ledger, wanted.first, wanted.bytes_max
    if (answer.ledger, answer.entry) == (ledger, first):
        run = bytes(answer.body)
        if len(run) <= bytes_max and _is_sound(run, wanted):
            return run
        end = _sound_bytes(run, wanted)
        if end:
            return run[:end]
    raise CorruptEntryError(ledger, first, _ANOTHER)


def _is_sound(run: bytes, wanted: WantedRange) -> bool:
    """Whether a run has consecutive entries of a range, from its first on."""
    try:
        found = scan_run(run)
    except InvalidRequestError:
        return False
    is_dense = found.last - found.first == found.count - 1
    return (
        is_dense
        and found.ledger == wanted.ledger
        and (found.first == wanted.first and found.last <= wanted.last)
    )


def _sound_bytes(run: bytes, wanted: WantedRange) -> int:
    """Return where the entries end that `_is_sound` takes. A first one may exceed the bytes."""
    at, entry = 0, wanted.first
    while entry <= wanted.last and at + SIZE.size + HEADER.size <= len(run):
        (size,) = SIZE.unpack_from(run, at)
        after = at + SIZE.size + size
        if not HEADER.size <= size <= FRAME_BYTES_MAX or after > len(run):
            break
        if after > wanted.bytes_max and entry > wanted.first:
            break
        ledger, found, lac, _ = HEADER.unpack_from(run, at + SIZE.size)
        if (ledger, found) != (wanted.ledger, entry) or not NO_ENTRY <= lac < found:
            break
        at, entry = after, entry + 1
    return at


def _as_third(answer: FixedAnswer) -> BookieAnswer:
    """Return an answer as one of the third protocol, which errors are made of."""
    part = Message.of({1: [int(answer.status)]})
    return BookieAnswer(Operation.READ, answer.request, answer.status, part)
