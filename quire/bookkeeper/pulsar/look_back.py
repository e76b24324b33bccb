"""The entries before a piece of a topic, to find where a message of several chunks began.

Each entry is looked at once to find beginnings, however many messages go on in the piece: a look
remembers how far back it came. It goes at least as far as all looks before it, and then reads
forwards, once, the chunks of the producers found on the way. So all looks together read an entry
four times at most on average, and the number of entries has a bound.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Final

from quire.bookkeeper.pieces import EntryPlace, LedgerPiece
from quire.bookkeeper.pulsar.chunks import BYTES_MAX, NAMES_BYTES_MAX, weight
from quire.bookkeeper.pulsar.ledgers import ledgers_of, open_part
from quire.bookkeeper.pulsar.managed_ledger import ManagedLedgerPart
from quire.bookkeeper.pulsar.messages import Chunk, chunk_of
from quire.bookkeeper.pulsar.names import SINGLE, MessageId, TopicName
from quire.client_ledgers import LedgerClient
from quire.entry import Entry, EntryId
from quire.errors import UnreadableContentError
from quire.ledger.reader import LedgerReader

STEP_FIRST: Final = 16
STEP_MAX: Final = 4096
"""Entries of a step back: the chunks of a message are mostly neighbours, so it begins small."""

ENTRIES_MAX: Final = 1_000_000
"""Entries that one reader looks back over: less than a minute. A ledger counts as `STEP_FIRST`."""

NAME_MAX: Final = 100
"""Letters of a producer's name in an error."""

LOOKED_BYTES_MAX: Final = 8 * BYTES_MAX
"""Their payload, 1 GiB: the largest message among seven others of its size."""


class LookBack:
    """The entries before a piece, as far as its reader has looked."""

    def __init__(
        self, client: LedgerClient, name: TopicName, piece: LedgerPiece, password: bytes
    ) -> None:
        self._client = client
        self._name = name
        self._piece = piece
        self._password = password
        self._listed: Sequence[ManagedLedgerPart] | None = None
        self._left: list[ManagedLedgerPart] = []
        """The ledgers that are not looked through; the newest one, at the end, is the next."""
        self._last: EntryId | None = None
        """The entry that is looked at next in that ledger, None for its last one."""
        self._step = STEP_FIRST
        self._entries = 0
        self._bytes = 0

    async def chunks(
        self, chunk: Chunk, is_known: Callable[[str], bool]
    ) -> AsyncGenerator[Chunk, None]:
        """Yield, in order, the chunks of a chunk's producer since the last beginning of a message.

        Args:
            chunk: a chunk in the piece, of a producer that is not known.
            is_known: whether a producer has begun a message in the piece, or after the place that
                an earlier look came to.

        Yields:
            The chunks from that beginning to the piece, and chunks of other producers found on the
            way. Nothing if no ledger has a beginning.

        Raises:
            UnreadableContentError: the beginning is too far back, or the ledger that had it may
                have been deleted since the topic was listed.
            CorruptEntryError: an entry is damaged.
            UnreadableError: too few copies can be read.

        Cancellation: ends the look. The reader has to be given up then.
        """
        begins = await self._look(chunk, is_known)
        if not begins:
            return
        async with aclosing(self._since(min(begins.values()))) as found:
            async for each in found:
                begin = begins.get(each.message.producer)
                if begin is not None and begin <= (each.id.ledger, each.id.entry):
                    yield each

    async def _look(self, chunk: Chunk, is_known: Callable[[str], bool]) -> dict[str, EntryPlace]:
        """Return the place of the last beginning of producers that are not known."""
        wanted = chunk.message.producer
        begins: dict[str, EntryPlace] = {}
        if self._listed is None:
            await self._list()
        entries_min = 2 * self._entries

        def wants_more() -> bool:
            is_done = wanted in begins and self._entries >= entries_min
            return not is_done and not self._is_far(begins)

        while self._left and wants_more():
            async with self._open(self._left[-1]) as (reader, end):
                self._entries += STEP_FIRST
                last = end if self._last is None else self._last
                while last >= 0 and wants_more():
                    first = max(0, last + 1 - self._step)
                    found = await self._beginnings(reader, first, last)
                    if found is None:
                        break
                    for producer, place in found.items():
                        if not is_known(producer):
                            begins.setdefault(producer, place)
                    last, self._step = first - 1, min(self._step * 2, STEP_MAX)
            self._last = last
            if last < 0:
                self._left.pop()
                self._last = None
        if wanted not in begins:
            self._check_missing(chunk)
        return begins

    async def _list(self) -> None:
        piece = self._piece
        is_partition = piece.part != SINGLE
        self._listed = await ledgers_of(self._client, self._name, is_partition=is_partition)
        end = (piece.ledger, piece.first)
        self._left = [part for part in self._listed if (part.ledger, 0) < end]
        if self._left and self._left[-1].ledger == piece.ledger:
            self._last = piece.first - 1

    async def _beginnings(
        self, reader: LedgerReader, first: EntryId, last: EntryId
    ) -> dict[str, EntryPlace] | None:
        """Return, by producer, the place of the last first chunk in some entries.

        None if they have more bytes than may still be looked at.
        """
        found: dict[str, EntryPlace] = {}
        async with aclosing(reader.read(first, last)) as entries:
            async for entry in entries:
                self._entries += 1
                self._bytes += len(entry.payload)
                if self._bytes >= LOOKED_BYTES_MAX:
                    return None
                chunk = self._chunk(entry)
                if chunk is not None and not chunk.number:
                    found[chunk.message.producer] = EntryPlace(entry.ledger, entry.entry)
        return found

    async def _since(self, begin: EntryPlace) -> AsyncGenerator[Chunk, None]:
        """Yield the chunks between a place and the piece."""
        piece = self._piece
        for part in self._listed or ():
            if not begin.number <= part.ledger <= piece.ledger:
                continue
            async with self._open(part) as (reader, last):
                first = begin.entry if part.ledger == begin.number else 0
                last = piece.first - 1 if part.ledger == piece.ledger else last
                if first <= last:
                    async with aclosing(reader.read(first, last)) as entries:
                        async for entry in entries:
                            if (chunk := self._chunk(entry)) is not None:
                                yield chunk

    def _open(
        self, part: ManagedLedgerPart
    ) -> AbstractAsyncContextManager[tuple[LedgerReader, EntryId]]:
        piece = self._piece
        is_own = part.ledger == piece.ledger
        return open_part(
            self._client,
            self._name,
            part,
            is_newest=is_own and piece.is_newest,
            password=self._password,
            confirmed=piece.last if is_own else -1,
        )

    def _chunk(self, entry: Entry) -> Chunk | None:
        at = MessageId(self._piece.part, entry.ledger, entry.entry)
        return chunk_of(at, entry.payload)

    def _is_far(self, begins: dict[str, EntryPlace]) -> bool:
        return (
            self._entries >= ENTRIES_MAX
            or self._bytes >= LOOKED_BYTES_MAX
            or sum(map(weight, begins)) >= NAMES_BYTES_MAX
        )

    def _check_missing(self, chunk: Chunk) -> None:
        """Refuse a message that may begin in an entry not looked at, or in a deleted ledger."""
        what = f"is chunk {chunk.number} of {chunk.count}, and "
        if self._left:
            raise UnreadableContentError(
                f"message {chunk.id}",
                f"{what}{self._entries} entries of {self._bytes} bytes, looked at before the piece "
                f"that begins with entry {self._piece.first}, have no beginning of a message of "
                f"producer {chunk.message.producer[:NAME_MAX]!r}",
                "read the topic whole, with read_topic or quire pulsar cat, or begin after it, at "
                f"{chunk.id.next}",
            )
        if not self._listed or self._listed[0].ledger > self._piece.since:
            raise UnreadableContentError(
                f"message {chunk.id}",
                f"{what}the ledger that it began in was deleted before it was read",
                "let the topic's retention keep unread entries, or begin after it, at "
                f"{chunk.id.next}",
            )
