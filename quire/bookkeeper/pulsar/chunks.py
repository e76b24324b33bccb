"""Messages that lie in several entries, joined. Pure.

Chunks of one message have one uuid and stand in their order; messages of other producers may stand
between them. A producer that failed leaves a message without end, which was never sent: it is
dropped when the same producer begins the next. A repeated chunk was sent again. A chunk that is
missing in the middle is an error.
"""

from __future__ import annotations

from typing import Final

from quire.bookkeeper.pulsar.compression import UNPACKED_BYTES_MAX
from quire.bookkeeper.pulsar.messages import Chunk, PulsarMessage
from quire.bookkeeper.pulsar.names import MessageId
from quire.errors import UnreadableContentError

BYTES_MAX: Final = UNPACKED_BYTES_MAX
"""The most bytes of unfinished messages that are kept."""

UNFINISHED_MAX: Final = 1000
"""Unfinished messages that are kept: one for each producer."""


class Chunks:
    """The unfinished messages of a reading that begins at `start`."""

    def __init__(self, start: MessageId | None) -> None:
        self._start = start
        self._parts: dict[str, list[bytes]] = {}
        self._uuids: dict[str, str] = {}
        self._held = 0

    def add(self, chunk: Chunk) -> PulsarMessage | None:
        """Take the next chunk; return the message that it ends.

        Raises:
            UnreadableContentError: the message begins before `start`, one of its chunks is
                missing, or unfinished messages hold more than `BYTES_MAX`.
            CorruptEntryError: the joined bytes do not unpack.
        """
        if chunk.number == 0:
            self._begin(chunk)
        parts = self._parts.get(chunk.uuid)
        if parts is None:
            self._refuse_orphan(chunk)
            return None
        if chunk.number < len(parts):  # sent again
            return None
        if chunk.number > len(parts):
            raise UnreadableContentError(
                f"message {chunk.id}",
                f"is chunk {chunk.number} of {chunk.count}, and chunk {len(parts)} is missing",
                f"begin after it, at {chunk.id.next}",
            )
        parts.append(chunk.part)
        self._held += len(chunk.part)
        self._check_size(chunk)
        if len(parts) < chunk.count:
            return None
        self._drop(chunk.message.producer)
        return chunk.joined(b"".join(parts))

    def _drop(self, producer: str) -> None:
        """Forget the unfinished message of a producer."""
        parts = self._parts.pop(self._uuids.pop(producer, ""), [])
        self._held -= sum(map(len, parts))

    def _begin(self, chunk: Chunk) -> None:
        if chunk.uuid in self._parts:
            return
        producer = chunk.message.producer
        self._drop(producer)
        if len(self._parts) >= UNFINISHED_MAX:
            raise UnreadableContentError(
                f"message {chunk.id}",
                f"is the first chunk of the message after {UNFINISHED_MAX} unfinished ones",
                "read the topic with a Pulsar client",
            )
        self._parts[chunk.uuid] = []
        self._uuids[producer] = chunk.uuid

    def _refuse_orphan(self, chunk: Chunk) -> None:
        """Refuse a message if its first chunks were passed over: the reader would miss it."""
        if self._start is not None and chunk.id >= self._start:
            raise UnreadableContentError(
                f"message {chunk.id}",
                f"is chunk {chunk.number} of {chunk.count}, and the reading from {self._start} "
                "has no chunk before it",
                f"begin at an earlier message, or after this one, at {chunk.id.next}",
            )

    def _check_size(self, chunk: Chunk) -> None:
        if self._held > BYTES_MAX or chunk.total > BYTES_MAX:
            raise UnreadableContentError(
                f"message {chunk.id}",
                f"makes unfinished messages hold more than {BYTES_MAX} bytes",
                "read the topic with a Pulsar client",
            )
