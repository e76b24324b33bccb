"""The contents of an entry of a topic: a message, a batch, a chunk, or a marker. Pure.

    [0x0e02 | size u32 | broker's metadata]     where a broker adds times and indexes
    [0x0e01 | CRC32C u32 of all that follows]
    size u32 | metadata | payload

The payload of a batch is unpacked as a whole, and holds `size u32 | metadata | payload` for each
message. Field numbers are those of Pulsar's messages.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import google_crc32c

from quire.bookkeeper.protobuf import MalformedError, Message, as_text
from quire.bookkeeper.pulsar.compression import unpack
from quire.bookkeeper.pulsar.names import MessageId
from quire.errors import CorruptEntryError, UnreadableContentError

_U16: Final = struct.Struct(">H")
_U32: Final = struct.Struct(">I")
_BROKER: Final = 0x0E02
_CHECKED: Final = 0x0E01
_NOWHERE: Final = MessageId(-1, -1, -1)
_BATCH_MAX: Final = 1_000_000
"""Messages of a batch; clients send a thousand by default."""


@dataclass(frozen=True, slots=True)
class PulsarMessage:
    """A message of a topic."""

    id: MessageId
    payload: bytes | None
    """None for a message that deletes its key (a "null value")."""
    key: bytes | None
    ordering_key: bytes | None
    properties: Mapping[str, str]
    publish_ms: int
    """When the producer sent it, milliseconds since 1970."""
    event_ms: int | None
    """The time that the application gave it, in the same unit; None if it gave none."""
    producer: str
    sequence: int
    index: int | None
    """Its number in the topic, where brokers count; None elsewhere."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a message that was too large for one entry."""

    id: MessageId
    uuid: str
    number: int
    count: int
    """How many chunks the message has."""
    total: int
    """The size of all of them in bytes."""
    codec: int
    unpacked: int
    part: bytes
    message: PulsarMessage
    """The message, its payload this part."""

    def joined(self, packed: bytes) -> PulsarMessage:
        """Return the whole message, after its last chunk. Raises `CorruptEntryError`."""
        try:
            payload = unpack(self.codec, packed, self.unpacked)
        except MalformedError as error:
            raise CorruptEntryError(self.id.ledger, self.id.entry, str(error)) from error
        return replace(self.message, payload=payload)


def decode_entry(at: MessageId, data: bytes) -> list[PulsarMessage] | Chunk:
    """Return the messages of an entry, or the chunk that it holds.

    Args:
        at: the place of the entry; its batch index does not count.
        data: the payload of the entry.

    Returns:
        Messages in their order; none for markers, which brokers write for themselves.

    Raises:
        CorruptEntryError: the bytes are damaged, or another kind of entry.
        UnreadableContentError: the message is encrypted or part of a transaction.
        MissingExtraError: it is packed with Snappy, and its package is missing.

    Source: docs/bookkeeper.md, "Pulsar".
    """
    try:
        return _decode(at, data)
    except MalformedError as error:
        raise CorruptEntryError(at.ledger, at.entry, str(error)) from error


def chunk_of(at: MessageId, data: bytes) -> Chunk | None:
    """Return the chunk that an entry holds, None for everything else; nothing is unpacked.

    Encrypted chunks and chunks of transactions are left out: all chunks of a message are, or none.

    Raises `CorruptEntryError` for damaged bytes, or another kind of entry.
    """
    try:
        index, metadata, body = _opened(data)
        if metadata.has(20) or _refused(metadata) or not _is_chunk(metadata):
            return None
        return _chunk(at, metadata, body, index)
    except MalformedError as error:
        raise CorruptEntryError(at.ledger, at.entry, str(error)) from error


def _opened(data: bytes) -> tuple[int | None, Message, bytes]:
    """Return the broker's index of an entry, its metadata, and its payload."""
    index: int | None = None
    begin = 0
    if _magic(data, begin) == _BROKER:
        head, begin = _sized(data, begin + _U16.size)
        broker = Message(head)
        index = broker.number(2) if broker.has(2) else None
    if _magic(data, begin) == _CHECKED:
        begin = _checked(data, begin + _U16.size)
    head, begin = _sized(data, begin)
    return index, Message(head), data[begin:]


def _decode(at: MessageId, data: bytes) -> list[PulsarMessage] | Chunk:
    index, metadata, body = _opened(data)
    if metadata.has(20):  # a marker; tested first: markers of transactions name them, too
        return []
    if refused := _refused(metadata):
        raise UnreadableContentError(f"message {at}", *refused)
    if _is_chunk(metadata):
        return _chunk(at, metadata, body, index)
    payload = unpack(metadata.number(8, 0), body, metadata.number(9, 0))
    if metadata.has(11):
        return _batch(at, metadata, payload, index)
    return [_message(at, metadata, payload, index)]


def _is_chunk(metadata: Message) -> bool:
    return metadata.has(29) and metadata.number(27, 1) > 1


def _magic(data: bytes, begin: int) -> int | None:
    return _U16.unpack_from(data, begin)[0] if len(data) >= begin + _U16.size else None


def _sized(data: bytes, begin: int) -> tuple[bytes, int]:
    """Return the message after its size, and its end."""
    if len(data) < begin + _U32.size:
        raise MalformedError(f"the entry of {len(data)} bytes ends inside a size")
    (size,) = _U32.unpack_from(data, begin)
    end = begin + _U32.size + size
    if end > len(data):
        raise MalformedError(f"{size} bytes of metadata in an entry of {len(data)} bytes")
    return data[begin + _U32.size : end], end


def _checked(data: bytes, begin: int) -> int:
    if len(data) < begin + _U32.size:
        raise MalformedError(f"the entry of {len(data)} bytes ends inside its checksum")
    (wanted,) = _U32.unpack_from(data, begin)
    found = google_crc32c.value(data[begin + _U32.size :])
    if found != wanted:
        raise MalformedError(f"its checksum is {found:08x}, and {wanted:08x} is written")
    return begin + _U32.size


def _refused(metadata: Message) -> tuple[str, str] | None:
    """Return why a message cannot be read, and the remedy; None for a readable message."""
    if metadata.has(13) or metadata.has(14) or metadata.has(15):
        return "is encrypted", "read the topic with a Pulsar client that has the key"
    if metadata.has(22) or metadata.has(23):
        return (
            "is part of a transaction, and only a broker knows whether it was aborted",
            "read the topic with a Pulsar client",
        )
    return None


def _chunk(at: MessageId, metadata: Message, body: bytes, index: int | None) -> Chunk:
    number, count, total = metadata.number(29), metadata.number(27), metadata.number(28)
    if not 0 <= number < count or total < len(body):
        raise MalformedError(f"chunk {number} of {count}, {len(body)} of {total} bytes")
    return Chunk(
        *(at, metadata.text(26), number, count, total),
        *(metadata.number(8, 0), metadata.number(9, 0), body),
        _message(at, metadata, body, index),
    )


def _batch(
    at: MessageId, metadata: Message, payload: bytes, index: int | None
) -> list[PulsarMessage]:
    count = metadata.number(11)
    if not 0 <= count <= _BATCH_MAX:
        raise MalformedError(f"a batch of {count} messages")
    found: list[PulsarMessage] = []
    begin = 0
    for number in range(count):
        head, begin = _sized(payload, begin)
        single = Message(head)
        size = single.number(3)
        if not 0 <= size <= len(payload) - begin:
            raise MalformedError(f"message {number} has {size} bytes, {len(payload) - begin} left")
        part, begin = payload[begin : begin + size], begin + size
        if single.number(4, 0):  # a compaction removed it
            continue
        place = MessageId(at.partition, at.ledger, at.entry, number)
        mine = None if index is None else index - count + 1 + number
        found.append(replace(_of_batch(metadata, single, part, number), id=place, index=mine))
    if begin != len(payload):
        raise MalformedError(f"{len(payload) - begin} bytes follow a batch of {count} messages")
    return found


def _of_batch(metadata: Message, single: Message, part: bytes, number: int) -> PulsarMessage:
    """Return a message of a batch, without its place."""
    return PulsarMessage(
        id=_NOWHERE,
        payload=None if single.number(9, 0) else part,
        key=_key(single, 2, 6),
        ordering_key=single.data(7) if single.has(7) else None,
        properties=_properties(single, 1),
        publish_ms=metadata.number(3),
        event_ms=single.number(5, 0) or None,
        producer=metadata.text(1),
        sequence=single.number(8) if single.has(8) else metadata.number(2) + number,
        index=None,
    )


def _message(at: MessageId, metadata: Message, payload: bytes, index: int | None) -> PulsarMessage:
    return PulsarMessage(
        id=MessageId(at.partition, at.ledger, at.entry),
        payload=None if metadata.number(25, 0) else payload,
        key=_key(metadata, 6, 17),
        ordering_key=metadata.data(18) if metadata.has(18) else None,
        properties=_properties(metadata, 4),
        publish_ms=metadata.number(3),
        event_ms=metadata.number(12, 0) or None,
        producer=metadata.text(1),
        sequence=metadata.number(2),
        index=index,
    )


def _key(fields: Message, key: int, encoded: int) -> bytes | None:
    """Return a key: text, or bytes that a flag says are written in Base64."""
    if not fields.has(key):
        return None
    data = fields.data(key)
    if not fields.number(encoded, 0):
        return data
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise MalformedError(f"the key is not Base64: {error}") from error


def _properties(fields: Message, key: int) -> dict[str, str]:
    pairs = map(Message, fields.parts(key))
    return {as_text(1, pair.data(1)): as_text(2, pair.data(2)) for pair in pairs}
