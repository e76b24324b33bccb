"""Reading ranges from a bookie that reads one entry at a time.

Many requests are under way at once: few as long as the size of entries is not known, then as many
as fill the answer. The size is remembered for the next read of the ledger, so a reader that goes
through a ledger waits for one answer a read, and not for one a window.

An entry is denied only if the bookie denied it by itself, or holds none that is so high: whatever
was not asked for is not denied, or recovery would end a ledger too early.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from quire.bookie import Stride
from quire.bookkeeper import wire3
from quire.bookkeeper.connection import BookieConnection
from quire.bookkeeper.protobuf import MalformedError
from quire.bookkeeper.status import ABSENT, Status
from quire.bookkeeper.wire3 import BookieAnswer, Operation
from quire.entry import HEADER, NO_ENTRY, EntryId, LedgerId
from quire.errors import CorruptEntryError, NoSuchEntryError, QuireError
from quire.run import pack_run

WINDOW_FIRST: Final = 16
WINDOW_MAX: Final = 1024
"""Reads under way in one call."""

SIZES_MAX: Final = 1024
"""Ledgers to remember the size of entries of."""

ErrorOf: TypeAlias = Callable[[LedgerId, EntryId, BookieAnswer], QuireError]
"""Says what an answer other than OK is."""


class WantedRange(NamedTuple):
    """The entries that a read is to bring."""

    ledger: LedgerId
    first: EntryId
    last: EntryId
    bytes_max: int
    stride: Stride | None

    @property
    def is_whole(self) -> bool:
        """Whether the bookie should hold every entry."""
        return self.stride is None or self.stride.gives_all

    def _gives(self, entry: EntryId) -> bool:
        return self.stride is None or self.stride.gives(entry)

    def given(self, first: EntryId, last: EntryId) -> Iterable[EntryId]:
        """Return the ids of a range that the bookie should hold."""
        ids = range(first, last + 1)
        return ids if self.is_whole else filter(self._gives, ids)


class SingleReads:
    """Reads entries over a connection; `error` says what an answer other than OK is."""

    def __init__(self, error: ErrorOf) -> None:
        self._error = error
        self._sizes: dict[LedgerId, int] = {}
        """The mean size of the frames that a read brought last, by ledger."""

    async def read(
        self, link: BookieConnection, wanted: WantedRange, fence_key: bytes | None = None
    ) -> bytes:
        """Return the run of the wanted entries that are held. Raises as `Bookie.read`."""
        ledger, first, last, *_ = wanted
        asked = [first] if fence_key is not None else self._first_window(wanted)
        others: list[BookieAnswer | QuireError] = []
        if len(asked) == 1:
            answer = await self._ask(link, ledger, first, fence_key)
        else:
            found, *others = await link.call_many(readings(ledger, asked))
            if isinstance(found, QuireError):
                raise found
            answer = found
        if answer.status == Status.OK:
            frames = [self._frame(ledger, first, answer)]
            if self._take(wanted, asked[1:], others, frames):
                await self._read_on(link, wanted, wanted.given(asked[-1] + 1, last), frames)
            self._note_size(ledger, frames)
            return pack_run(frames)
        error = self._error(ledger, first, answer)
        if answer.status != Status.NO_ENTRY or first == last:
            raise error
        return await self.read_after_gap(link, wanted, fence_key)

    def _first_window(self, wanted: WantedRange) -> list[EntryId]:
        """Return the entries to ask for at once: one, unless the size of entries is known."""
        known = self._sizes.get(wanted.ledger)
        room = 1 if known is None else min(WINDOW_MAX, wanted.bytes_max // known)
        more = wanted.given(wanted.first + 1, wanted.last)
        return [wanted.first, *islice(more, max(0, room - 1))]

    def _note_size(self, ledger: LedgerId, frames: list[bytes]) -> None:
        self._sizes.pop(ledger, None)
        self._sizes[ledger] = sum(map(len, frames)) // len(frames) + 1
        if len(self._sizes) > SIZES_MAX:
            del self._sizes[next(iter(self._sizes))]

    async def _ask(
        self,
        link: BookieConnection,
        ledger: LedgerId,
        entry: EntryId,
        fence_key: bytes | None = None,
    ) -> BookieAnswer:
        """Read one entry. A fence is durable when this returns, whatever the answer is."""
        priority = 0 if fence_key is None else wire3.PRIORITY
        answer = await link.call(
            lambda number: wire3.read(number, ledger, entry, fence_key=fence_key, priority=priority)
        )
        if fence_key is not None and answer.status in ABSENT:
            await self.force(link, ledger)
        return answer

    async def force(self, link: BookieConnection, ledger: LedgerId) -> None:
        """Return when everything is durable that the bookie accepted for a ledger."""
        answer = await link.call(partial(wire3.of_ledger, Operation.FORCE, ledger=ledger))
        if answer.status != Status.OK:
            raise self._error(ledger, NO_ENTRY, answer)

    def _frame(self, ledger: LedgerId, entry: EntryId, answer: BookieAnswer) -> bytes:
        """Return the frame of an answer, which is the entry asked for or damage of it."""
        try:
            frame = answer.part.data(4)
        except MalformedError as error:
            raise CorruptEntryError(ledger, entry, "the bookie answered without it") from error
        if len(frame) < HEADER.size or HEADER.unpack_from(frame)[:2] != (ledger, entry):
            raise CorruptEntryError(ledger, entry, "the bookie answered with another entry")
        return frame

    async def _read_on(
        self,
        link: BookieConnection,
        wanted: WantedRange,
        ids: Iterable[EntryId],
        frames: list[bytes],
    ) -> None:
        """Read entries after some that were found, until bytes or entries end, or one fails."""
        window, more = WINDOW_FIRST, iter(ids)
        while True:
            size = sum(map(len, frames))
            average = size // len(frames) + 1
            room = max(0, wanted.bytes_max - size) // average
            asked = list(islice(more, min(window, room)))
            if not asked:
                return
            answers = await link.call_many(readings(wanted.ledger, asked))
            if not self._take(wanted, asked, answers, frames):
                return
            window = min(2 * window, WINDOW_MAX)

    def _take(
        self,
        wanted: WantedRange,
        asked: Sequence[EntryId],
        answers: Sequence[BookieAnswer | QuireError],
        frames: list[bytes],
    ) -> bool:
        """Add the entries of some answers to those before; whether more are to be asked for."""
        size, denied = sum(map(len, frames)), False
        for entry, answer in zip(asked, answers, strict=True):
            if isinstance(answer, QuireError) or answer.status not in (Status.OK, *ABSENT):
                return False
            denied = answer.status in ABSENT
            if denied:
                continue
            try:
                frame = self._frame(wanted.ledger, entry, answer)
            except CorruptEntryError:
                return False  # the next read begins with it, and says so
            if size + len(frame) > wanted.bytes_max:
                return False
            frames.append(frame)
            size += len(frame)
        return not denied  # most likely the end, or a gap: more would be asked for nothing

    async def read_after_gap(
        self, link: BookieConnection, wanted: WantedRange, fence_key: bytes | None = None
    ) -> bytes:
        """Read the entries after the first one, which the bookie does not hold."""
        ledger, first, last, *_ = wanted
        highest = await self.highest(link, ledger, fence_key)
        if highest < first:
            raise NoSuchEntryError(ledger, first, last)
        end, denied = min(last, highest), first
        async with aclosing(self.held(link, ledger, wanted.given(first + 1, end))) as found:
            async for entry, frame in found:
                if frame is not None:
                    frames = [frame]
                    await self._read_on(link, wanted, wanted.given(entry + 1, end), frames)
                    return pack_run(frames)
                if entry == denied + 1:
                    denied = entry
        raise NoSuchEntryError(ledger, first, last if denied >= end else denied)

    async def highest(
        self, link: BookieConnection, ledger: LedgerId, fence_key: bytes | None = None
    ) -> EntryId:
        """Return the highest entry held, `NO_ENTRY` without any."""
        answer = await self._ask(link, ledger, NO_ENTRY, fence_key)
        if answer.status in ABSENT:
            return NO_ENTRY
        if answer.status != Status.OK:
            raise self._error(ledger, NO_ENTRY, answer)
        return int(HEADER.unpack_from(last_frame(ledger, answer))[1])

    async def held(
        self, link: BookieConnection, ledger: LedgerId, wanted: Iterable[EntryId]
    ) -> AsyncGenerator[tuple[EntryId, bytes | None], None]:
        """Yield each wanted entry with its frame, None for an entry that the bookie denies.

        Raises the first error that is neither.
        """
        more = iter(wanted)
        while ids := list(islice(more, WINDOW_FIRST)):
            answers = await link.call_many(readings(ledger, ids))
            for entry, answer in zip(ids, answers, strict=True):
                if isinstance(answer, QuireError):
                    raise answer
                if answer.status == Status.OK:
                    yield entry, self._frame(ledger, entry, answer)
                elif answer.status in ABSENT:
                    yield entry, None
                else:
                    raise self._error(ledger, entry, answer)


def last_frame(ledger: LedgerId, answer: BookieAnswer) -> bytes:
    """Return the frame that answers a read of entry −1. Raises `CorruptEntryError`."""
    frame = answer.part.data(4, b"")
    if len(frame) < HEADER.size or HEADER.unpack_from(frame)[0] != ledger:
        raise CorruptEntryError(ledger, NO_ENTRY, "the bookie's last entry is of another ledger")
    return frame


def readings(ledger: LedgerId, entries: Iterable[EntryId]) -> list[Callable[[int], bytes]]:
    """Return the requests for some entries, for `BookieConnection.call_many`."""
    encode = wire3.ReadEncoder(ledger).encode
    return [partial(encode, entry=entry) for entry in entries]
