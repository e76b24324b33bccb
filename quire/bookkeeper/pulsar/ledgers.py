"""The ledgers of a topic: how many partitions it has, which ledgers these have, and their ends."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from quire.bookkeeper.pulsar.managed_ledger import ManagedLedgerPart, decode_managed_ledger
from quire.bookkeeper.pulsar.names import SINGLE, TopicName
from quire.client_ledgers import LedgerClient
from quire.entry import NO_ENTRY, EntryId
from quire.errors import (
    CorruptRecordError,
    NoSuchLedgerError,
    NoSuchNodeError,
    NoSuchTopicError,
    UnreadableContentError,
)
from quire.ledger.reader import LedgerReader

_PARTITIONS_MAX: Final = 1_000_000


async def partitions_of(client: LedgerClient, name: TopicName) -> Sequence[int]:
    """Return the numbers of a topic's partitions, −1 alone for a topic without them.

    Raises `CorruptRecordError` for a record that counts no partitions.
    """
    if name.number != SINGLE:
        return [name.number]
    path = name.partitions_path
    try:
        found = await client._store.get(path)
    except NoSuchNodeError:
        return [SINGLE]
    try:
        count = json.loads(found.value)["partitions"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptRecordError(path, f"{found.value[:40]!r} counts no partitions") from error
    if not isinstance(count, int) or not 0 <= count <= _PARTITIONS_MAX:
        raise CorruptRecordError(path, f"it has {count!r} partitions")
    return range(count) if count else [SINGLE]


async def ledgers_of(
    client: LedgerClient, name: TopicName, *, is_partition: bool
) -> Sequence[ManagedLedgerPart]:
    """Return the ledgers of a topic without partitions, or of one partition, oldest first.

    Raises `NoSuchTopicError`, and `CorruptRecordError` for a damaged list.
    """
    try:
        found = await client._store.get(name.path)
    except NoSuchNodeError as error:
        if is_partition:  # brokers make the record of a partition when it is used first
            return ()
        raise NoSuchTopicError(f"topic {name}", name.path, client.store_uri) from error
    return decode_managed_ledger(name.path, found.value)


def _check_here(name: TopicName, part: ManagedLedgerPart) -> None:
    """Raise `UnreadableContentError` for a ledger without a copy on bookies."""
    if part.is_offloaded:
        raise UnreadableContentError(
            f"ledger {part.ledger} of topic {name}",
            "is in long-term storage only",
            "read it with a Pulsar client, or begin at a later message",
        )


@asynccontextmanager
async def open_part(
    client: LedgerClient,
    name: TopicName,
    part: ManagedLedgerPart,
    *,
    is_newest: bool,
    password: bytes,
    confirmed: EntryId = NO_ENTRY,
) -> AsyncIterator[tuple[LedgerReader, EntryId]]:
    """Open a ledger of a topic without recovery, and tell its last confirmed entry.

    Args:
        client: a client of the cluster's ledgers.
        name: the topic, or the partition.
        part: the ledger, as the list has it.
        is_newest: whether it is the last one of the list; only that one may be open.
        password: the broker's `managedLedgerPassword`.
        confirmed: an entry that another reader saw confirmed: bookies that answer here may not
            know that yet.

    Yields:
        The reader, and its last confirmed entry, −1 for none.

    Raises:
        UnreadableContentError: the ledger was offloaded or deleted, or is open before the newest.
        CorruptRecordError: the ledger is shorter than the list says.
        UnreadableError: too few bookies answer.

    Cancellation: the reader is closed.
    """
    _check_here(name, part)
    try:
        reader = await client.open_ledger_without_recovery(part.ledger, password=password)
    except NoSuchLedgerError as error:
        raise UnreadableContentError(
            f"ledger {part.ledger} of topic {name}",
            "was deleted after the topic's ledgers were listed",
            "read again, and let the topic's retention keep unread entries",
        ) from error
    try:
        reader._known.confirm(confirmed)
        last = await reader.last_confirmed()
        if last < part.entries - 1:
            raise CorruptRecordError(
                name.path,
                f"ledger {part.ledger} ends with entry {last}, and {part.entries} entries are "
                "listed",
            )
        if not is_newest and not reader.is_closed:
            raise UnreadableContentError(
                f"ledger {part.ledger} of topic {name}",
                "is not closed, and newer ones follow it",
                "read it with a Pulsar client, so a broker recovers it, or begin at a later one",
            )
        yield reader, last
    finally:
        await reader.close()
