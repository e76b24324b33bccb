"""A reader of topics over the ledgers of a client.

async with quire.connect("zk://zoo1/?ledgers=bookkeeper:/ledgers") as client:
    async for message in read_topic(client, "persistent://public/default/orders"):
        print(message.id, message.payload)
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

from quire.bookkeeper.pulsar.chunks import Chunks
from quire.bookkeeper.pulsar.managed_ledger import ManagedLedgerPart, decode_managed_ledger
from quire.bookkeeper.pulsar.messages import Chunk, PulsarMessage, decode_entry
from quire.bookkeeper.pulsar.names import SINGLE, MessageId, TopicName
from quire.client_ledgers import LedgerClient
from quire.entry import Entry
from quire.errors import (
    CorruptRecordError,
    NoSuchNodeError,
    NoSuchTopicError,
    UnreadableContentError,
)

_PARTITIONS_MAX: Final = 1_000_000


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
        UnreadableContentError: a message is encrypted or in a transaction, a ledger was offloaded,
            a ledger before the newest is not closed, a chunk is missing, or a chunked message
            began before `start`.
        CorruptEntryError: an entry is damaged.
        CorruptRecordError: the topic's record is damaged, or a ledger is shorter than it says.
        UnreadableError: too few copies can be read.

    Cancellation: ends the reading only.

    Guarantees: no ledger is fenced. Unreadable data are an error, never passed over. Memory
        holds the reader's read-ahead, one entry unpacked, and unfinished messages up to 128 MiB.
    """
    name = TopicName.parse(topic)
    for number in await _partitions(client, name):
        if start is not None and number < start.partition:
            continue
        one = name if number == SINGLE or name.number == number else name.partition(number)
        begin = start if start is not None and number == start.partition else None
        async with aclosing(_read(client, one, number, begin, password)) as messages:
            async for message in messages:
                yield message


async def _partitions(client: LedgerClient, name: TopicName) -> Sequence[int]:
    """Return the numbers of a topic's partitions, -1 alone for a topic without them."""
    if name.number != SINGLE:
        return [name.number]
    path = name.partitions_path
    try:
        found = await client._store.get(path)
    except NoSuchNodeError:
        return [SINGLE]
    try:
        count = json.loads(found.value)["partitions"]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptRecordError(path, f"{found.value[:40]!r} counts no partitions") from error
    if not isinstance(count, int) or not 0 <= count <= _PARTITIONS_MAX:
        raise CorruptRecordError(path, f"it has {count!r} partitions")
    return range(count) if count else [SINGLE]


async def _read(
    client: LedgerClient, name: TopicName, number: int, start: MessageId | None, password: bytes
) -> AsyncGenerator[PulsarMessage, None]:
    chunks = Chunks(start)
    parts = await _ledgers(client, name, is_partition=number != SINGLE)
    for part in parts:
        if start is not None and part.ledger < start.ledger:
            continue
        first = start.entry if start is not None and part.ledger == start.ledger else 0
        async with aclosing(_entries(client, name, part, parts[-1], first, password)) as entries:
            async for entry in entries:
                at = MessageId(number, entry.ledger, entry.entry)
                for message in _messages(chunks, at, entry.payload):
                    if start is None or message.id >= start:
                        yield message


async def _ledgers(
    client: LedgerClient, name: TopicName, *, is_partition: bool
) -> Sequence[ManagedLedgerPart]:
    try:
        found = await client._store.get(name.path)
    except NoSuchNodeError as error:
        if is_partition:  # brokers make the record of a partition when it is used first
            return ()
        raise NoSuchTopicError(f"topic {name}", name.path, client.store_uri) from error
    return decode_managed_ledger(name.path, found.value)


async def _entries(
    client: LedgerClient,
    name: TopicName,
    part: ManagedLedgerPart,
    newest: ManagedLedgerPart,
    first: int,
    password: bytes,
) -> AsyncGenerator[Entry, None]:
    if part.is_offloaded:
        raise UnreadableContentError(
            f"ledger {part.ledger} of topic {name}",
            "is in long-term storage only",
            "read it with a Pulsar client, or begin at a later message",
        )
    reader = await client.open_ledger_without_recovery(part.ledger, password=password)
    try:
        last = await reader.last_confirmed()
        if last < part.entries - 1:
            raise CorruptRecordError(
                name.path,
                f"ledger {part.ledger} ends with entry {last}, and {part.entries} entries are "
                "listed",
            )
        if part is not newest and not reader.is_closed:
            raise UnreadableContentError(
                f"ledger {part.ledger} of topic {name}",
                f"is not closed, and is not the newest: ledger {newest.ledger} is",
                "read it with a Pulsar client, so a broker recovers it, or begin at a later one",
            )
        if first <= last:
            async with aclosing(reader.read(first, last)) as entries:
                async for entry in entries:
                    yield entry
    finally:
        await reader.close()


def _messages(chunks: Chunks, at: MessageId, payload: bytes) -> Sequence[PulsarMessage]:
    found = decode_entry(at, payload)
    if not isinstance(found, Chunk):
        return found
    message = chunks.add(found)
    return () if message is None else (message,)
