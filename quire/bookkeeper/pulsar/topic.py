"""A reader of topics over the ledgers of a client.

async with quire.connect("zk://zoo1/?ledgers=bookkeeper:/ledgers") as client:
    async for message in read_topic(client, "persistent://public/default/orders"):
        print(message.id, message.payload)
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from quire.bookkeeper.pulsar.chunks import Chunks
from quire.bookkeeper.pulsar.ledgers import ledgers_of, open_part, partitions_of
from quire.bookkeeper.pulsar.managed_ledger import ManagedLedgerPart
from quire.bookkeeper.pulsar.messages import Chunk, PulsarMessage, decode_entry
from quire.bookkeeper.pulsar.names import SINGLE, MessageId, TopicName
from quire.client_ledgers import LedgerClient
from quire.entry import Entry


async def read_topic(
    client: LedgerClient,
    topic: str,
    *,
    start: MessageId | None = None,
    password: bytes = b"",
) -> AsyncGenerator[PulsarMessage, None]:
    """Yield the messages of a topic that are confirmed now; one partition after the other.

    Args:
        client: a client of the cluster's ledgers, which may be opened to be read only.
        topic: persistent://tenant/namespace/topic, or its short forms.
        start: the first message; `MessageId.next` of the last message read continues after it.
            None for all messages that the topic keeps.
        password: the broker's `managedLedgerPassword`, empty by default.

    Yields:
        The messages in the order of their ids. Markers of brokers and chunks of messages that were
        never completed are left out.

    Raises:
        NoSuchTopicError: ZooKeeper has no record of the topic.
        UnreadableContentError: a message is encrypted or in a transaction, a ledger was offloaded
            or has just been deleted, a ledger before the newest is not closed, a chunk is missing,
            or a chunked message began before `start`.
        CorruptEntryError: an entry is damaged.
        CorruptRecordError: the topic's record is damaged, or a ledger is shorter than it says.
        UnreadableError: too few copies can be read.

    Cancellation: ends the reading only.

    Guarantees: no ledger is fenced. Unreadable data are an error, never passed over. Memory
        holds the reader's read-ahead, one entry unpacked, and unfinished messages up to 128 MiB.
    """
    name = TopicName.parse(topic)
    for number in await partitions_of(client, name):
        if start is not None and number < start.partition:
            continue
        begin = start if start is not None and number == start.partition else None
        async with aclosing(_read(client, name.part(number), number, begin, password)) as messages:
            async for message in messages:
                yield message


async def _read(
    client: LedgerClient, name: TopicName, number: int, start: MessageId | None, password: bytes
) -> AsyncGenerator[PulsarMessage, None]:
    chunks = Chunks(start)
    parts = await ledgers_of(client, name, is_partition=number != SINGLE)
    for part in parts:
        if start is not None and part.ledger < start.ledger:
            continue
        first = start.entry if start is not None and part.ledger == start.ledger else 0
        is_newest = part is parts[-1]
        async with aclosing(_entries(client, name, part, is_newest, first, password)) as entries:
            async for entry in entries:
                at = MessageId(number, entry.ledger, entry.entry)
                for message in _messages(chunks, at, entry.payload):
                    if start is None or message.id >= start:
                        yield message


async def _entries(
    client: LedgerClient,
    name: TopicName,
    part: ManagedLedgerPart,
    is_newest: bool,
    first: int,
    password: bytes,
) -> AsyncGenerator[Entry, None]:
    async with open_part(client, name, part, is_newest=is_newest, password=password) as opened:
        reader, last = opened
        if first <= last:
            async with aclosing(reader.read(first, last)) as entries:
                async for entry in entries:
                    yield entry


def _messages(chunks: Chunks, at: MessageId, payload: bytes) -> Sequence[PulsarMessage]:
    found = decode_entry(at, payload)
    if not isinstance(found, Chunk):
        return found
    message = chunks.add(found)
    return () if message is None else (message,)
