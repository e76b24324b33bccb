"""Topics cut into pieces, which several processes read at the same time.

    pieces = await list_pieces(client, "orders")
    async for messages in read_piece(client, pieces[0]):

A message belongs to the piece with its last entry: messages of all pieces, one after the other, are
those of `read_topic`. A piece that begins between the chunks of a message looks for the first one
in the entries before it. Nothing is fenced.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Final

from quire.aio.tasks import each
from quire.bookkeeper.pieces import EntryPlace, LedgerPiece, naming
from quire.bookkeeper.pulsar.chunks import Chunks
from quire.bookkeeper.pulsar.ledgers import ledgers_of, open_part, partitions_of
from quire.bookkeeper.pulsar.managed_ledger import ManagedLedgerPart
from quire.bookkeeper.pulsar.messages import Chunk, PulsarMessage, decode_entry
from quire.bookkeeper.pulsar.names import SINGLE, MessageId, TopicName
from quire.client_ledgers import LedgerClient
from quire.entry import Entry, EntryId
from quire.errors import UnreadableContentError
from quire.ledger.reader import LedgerReader

AT_ONCE_MAX: Final = 16
"""Partitions, and ledgers of each, that are asked about at a time."""

LOOK_BACK_FIRST: Final = 16
LOOK_BACK_MAX: Final = 4096
"""Entries of a look back: the chunks of a message are mostly neighbours, so it begins small."""

EVERYTHING: Final[Mapping[int, EntryPlace]] = MappingProxyType({})


async def list_pieces(
    client: LedgerClient,
    topic: str,
    begins: Mapping[int, EntryPlace] = EVERYTHING,
    *,
    password: bytes = b"",
) -> list[LedgerPiece]:
    """Return the confirmed entries of a topic, a piece for each ledger.

    Args:
        client: a client of the cluster's ledgers, which may be opened to be read only.
        topic: persistent://tenant/namespace/topic, or its short forms.
        begins: by number of the partition, the place before which nothing is looked at. A
            partition without one is listed whole.
        password: the broker's `managedLedgerPassword`, empty by default.

    Returns:
        The pieces in the order of their messages. A ledger without entries, or with entries
        before the place only, has a piece without entries.

    Raises:
        NoSuchTopicError: ZooKeeper has no record of the topic.
        UnreadableContentError: a ledger that is wanted has just been deleted, or is open before
            the newest.
        CorruptRecordError: the topic's record is damaged, or a ledger is shorter than it says.
        UnreadableError: too few bookies answer.

    Cancellation: ends the listing only.

    Guarantees: no ledger is fenced. Closed ledgers are not asked: their ends are in the topic's
        record.
    """
    name = TopicName.parse(topic)
    with naming(f"topic {name}"):
        numbers = await partitions_of(client, name)
        ask = partial(_partition, client, name, begins, password)
        return list(chain.from_iterable(await each(numbers, ask, AT_ONCE_MAX)))


async def read_piece(
    client: LedgerClient, piece: LedgerPiece, *, password: bytes = b""
) -> AsyncGenerator[list[PulsarMessage], None]:
    """Yield the messages of a piece in lists, in the order of their ids.

    Args:
        client: a client of the cluster's ledgers.
        piece: a piece of `list_pieces`, or a part of one.
        password: the broker's `managedLedgerPassword`.

    Yields:
        The messages whose last entry is in the piece, as `read_topic` reads them.

    Raises:
        UnreadableContentError: as `read_topic`; or a message began in a ledger that was deleted
            since `LedgerPiece.since`.
        CorruptEntryError: an entry is damaged.
        UnreadableError: too few copies can be read.

    Cancellation: ends the reading only.

    Guarantees: as `read_topic`. Errors name the topic.
    """
    name = TopicName.parse(piece.log)
    with naming(f"topic {name}"):
        one = name.part(piece.part)
        entries = 0 if piece.is_newest else piece.last + 1
        opened = open_part(
            client,
            one,
            ManagedLedgerPart(piece.ledger, entries, is_offloaded=piece.is_offloaded),
            is_newest=piece.is_newest,
            password=password,
            confirmed=piece.last,
        )
        joining = _Joining(_Before(client, one, piece, password), piece)
        async with opened as (reader, _), aclosing(_runs(reader, piece)) as runs:
            async for run in runs:
                yield [message for entry in run for message in await joining.take(entry)]


async def _partition(
    client: LedgerClient,
    name: TopicName,
    begins: Mapping[int, EntryPlace],
    password: bytes,
    number: int,
) -> Sequence[LedgerPiece]:
    one = name.part(number)
    parts = await ledgers_of(client, one, is_partition=number != SINGLE)
    begin = begins.get(number, EntryPlace(0, 0))

    async def piece_of(part: ManagedLedgerPart) -> LedgerPiece:
        first = begin.entry if part.ledger == begin.number else 0
        is_newest = part is parts[-1]
        last, size = part.entries - 1, part.size or None
        if is_newest or not part.entries:
            opened = open_part(client, one, part, is_newest=is_newest, password=password)
            async with opened as (reader, last):
                size = reader.info.length
        whole = LedgerPiece(
            *(str(name), number, part.ledger, part.ledger, 0, last, size),
            *(is_newest, since, part.is_offloaded),
        )
        return whole.narrow(first, max(last, first - 1))

    since = parts[0].ledger if parts else 0
    wanted = [part for part in parts if part.ledger >= begin.number]
    return await each(wanted, piece_of, AT_ONCE_MAX)


async def _runs(reader: LedgerReader, piece: LedgerPiece) -> AsyncGenerator[list[Entry], None]:
    if piece.entries:
        async with aclosing(reader.read_runs(piece.first, piece.last)) as runs:
            async for run in runs:
                yield run


class _Before:
    """The entries before a piece, to find the first chunk of a message."""

    def __init__(
        self, client: LedgerClient, name: TopicName, piece: LedgerPiece, password: bytes
    ) -> None:
        self._client = client
        self._name = name
        self._piece = piece
        self._password = password

    async def find(self, chunk: Chunk) -> EntryPlace | None:
        """Return the place of the last first chunk of a message before the piece, None if no
        ledger has one.

        Raises `UnreadableContentError` when the ledger that had it may have been deleted since the
        topic was listed.
        """
        parts, piece = await self._parts(), self._piece
        for part in reversed([part for part in parts if part.ledger <= piece.ledger]):
            last = piece.first - 1 if part.ledger == piece.ledger else None
            if last == -1:
                continue
            async with self._open(part) as (reader, end):
                found = await self._find(reader, chunk, end if last is None else last)
            if found is not None:
                return EntryPlace(part.ledger, found)
        if not parts or parts[0].ledger > piece.since:
            raise UnreadableContentError(
                f"message {chunk.id}",
                f"is chunk {chunk.number} of {chunk.count}, and the ledger that it began in was "
                "deleted before it was read",
                "let the topic's retention keep unread entries, or begin after it, at "
                f"{chunk.id.next}",
            )
        return None

    async def chunks(self, begin: EntryPlace, end: EntryPlace) -> AsyncGenerator[Chunk, None]:
        """Yield the chunks between two places."""
        for part in await self._parts():
            if not begin.number <= part.ledger <= end.number:
                continue
            async with self._open(part) as (reader, last):
                first = begin.entry if part.ledger == begin.number else 0
                last = end.entry - 1 if part.ledger == end.number else last
                if first <= last:
                    async with aclosing(reader.read(first, last)) as entries:
                        async for entry in entries:
                            if (chunk := self._chunk(entry)) is not None:
                                yield chunk

    async def _parts(self) -> Sequence[ManagedLedgerPart]:
        is_partition = self._piece.part != SINGLE
        return await ledgers_of(self._client, self._name, is_partition=is_partition)

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

    async def _find(self, reader: LedgerReader, chunk: Chunk, last: EntryId) -> EntryId | None:
        """Return the last entry up to `last` with the first chunk of a message."""
        size = LOOK_BACK_FIRST
        while last >= 0:
            first = max(0, last + 1 - size)
            found: EntryId | None = None
            async with aclosing(reader.read(first, last)) as entries:
                async for entry in entries:
                    other = self._chunk(entry)
                    if other is not None and (other.uuid, other.number) == (chunk.uuid, 0):
                        found = entry.entry
            if found is not None:
                return found
            last, size = first - 1, min(size * 2, LOOK_BACK_MAX)
        return None

    def _chunk(self, entry: Entry) -> Chunk | None:
        """Return the chunk of an entry that another piece delivers. Refused entries are not chunks
        of a message that can be read: all chunks of a message are encrypted, or none.
        """
        try:
            found = decode_entry(
                MessageId(self._piece.part, entry.ledger, entry.entry), entry.payload
            )
        except UnreadableContentError:
            return None
        return found if isinstance(found, Chunk) else None


class _Joining:
    """Joins the chunks of a piece as a reader of the whole topic does."""

    def __init__(self, before: _Before, piece: LedgerPiece) -> None:
        self._before = before
        self._part = piece.part
        self._chunks = Chunks(None)
        self._known: set[str] = set()
        """Messages that began in an entry that was read, or in no entry of the topic."""

    async def take(self, entry: Entry) -> Sequence[PulsarMessage]:
        """Return the messages that an entry holds or ends."""
        found = decode_entry(MessageId(self._part, entry.ledger, entry.entry), entry.payload)
        if not isinstance(found, Chunk):
            return found
        if found.number and found.uuid not in self._known:
            await self._look_back(found)
        message = self._add(found)
        return () if message is None else (message,)

    def _add(self, chunk: Chunk) -> PulsarMessage | None:
        if not chunk.number:
            self._known.add(chunk.uuid)
        return self._chunks.add(chunk)

    async def _look_back(self, chunk: Chunk) -> None:
        self._known.add(chunk.uuid)
        begin = await self._before.find(chunk)
        if begin is None:
            return
        self._chunks = Chunks(None)
        end = EntryPlace(chunk.id.ledger, chunk.id.entry)
        async with aclosing(self._before.chunks(begin, end)) as chunks:
            async for earlier in chunks:
                self._add(earlier)
