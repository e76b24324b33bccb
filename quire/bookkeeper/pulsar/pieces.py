"""Topics cut into pieces, which several processes read at the same time.

    pieces = await list_pieces(client, "orders")
    async for messages in read_piece(client, pieces[0]):

A message belongs to the piece with its last entry: messages of all pieces, one after the other, are
those of `read_topic`. A piece that begins between the chunks of a message looks for the first one
in the entries before it (look_back.py). Nothing is fenced.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Final

from quire.aio.tasks import each
from quire.bookkeeper.pieces import EntryPlace, LedgerPiece, naming
from quire.bookkeeper.pulsar.chunks import Chunks
from quire.bookkeeper.pulsar.ledgers import ledgers_of, open_part, partitions_of
from quire.bookkeeper.pulsar.look_back import LookBack
from quire.bookkeeper.pulsar.managed_ledger import ManagedLedgerPart
from quire.bookkeeper.pulsar.messages import Chunk, PulsarMessage, decode_entry
from quire.bookkeeper.pulsar.names import SINGLE, MessageId, TopicName
from quire.client_ledgers import LedgerClient
from quire.entry import Entry
from quire.ledger.reader import LedgerReader

AT_ONCE_MAX: Final = 16
"""Partitions, and ledgers of each, that are asked about at a time."""

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

    Guarantees: no ledger is fenced. The end of a closed ledger is in its own record, which is read
        for each: brokers read as far, also where the topic's record counts fewer entries.
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
            since `LedgerPiece.since`, or too far back: `look_back.ENTRIES_MAX` entries.
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
        joining = _Joining(LookBack(client, one, piece, password), piece)
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
        if not part.is_offloaded or is_newest:
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


class _Joining:
    """Joins the chunks of a piece as a reader of the whole topic does."""

    def __init__(self, before: LookBack, piece: LedgerPiece) -> None:
        self._before = before
        self._part = piece.part
        self._chunks = Chunks(None)

    async def take(self, entry: Entry) -> Sequence[PulsarMessage]:
        """Return the messages that an entry holds or ends."""
        found = decode_entry(MessageId(self._part, entry.ledger, entry.entry), entry.payload)
        if not isinstance(found, Chunk):
            return found
        if self._chunks.needs_look_back(found):
            async with aclosing(self._before.chunks(found, self._chunks.knows)) as chunks:
                async for earlier in chunks:
                    self._chunks.remember(earlier)
        message = self._chunks.add(found)
        return () if message is None else (message,)
