"""Messages that lie in several entries, joined. Pure.

Chunks of one message have one uuid and stand in their order; messages of other producers may stand
between them. A producer that failed leaves a message without end, which was never sent: it is
dropped when the same producer begins the next. A repeated chunk was sent again. A chunk that is
missing in the middle is an error.

Memory is bounded. Past a bound the message that began longest ago is let go: Pulsar's clients do
the same. It was most likely never completed. If another chunk of it comes, that is an error.
"""

from __future__ import annotations

from typing import Final

from quire.bookkeeper.pulsar.compression import UNPACKED_BYTES_MAX
from quire.bookkeeper.pulsar.messages import Chunk, PulsarMessage
from quire.bookkeeper.pulsar.names import MessageId
from quire.errors import UnreadableContentError

BYTES_MAX: Final = UNPACKED_BYTES_MAX
"""The most bytes of unfinished messages that are kept."""

PART_BYTES: Final = 64
"""The memory of a chunk beside its bytes."""

NAMES_BYTES_MAX: Final = 32 * 1024 * 1024
"""The most memory for names of producers: some 100,000 names, each of 100 letters with its uuid."""

NAME_BYTES: Final = 200
"""The memory of a producer beside the letters of its name and uuid."""

_CROWDED: Final = f"messages that began later made unfinished ones hold more than {BYTES_MAX} bytes"
_BROKEN: Final = f"its chunks before the reading have a gap, or more than {BYTES_MAX} bytes"


class Chunks:
    """The unfinished messages of a reading that begins at `start`, one for each producer."""

    def __init__(self, start: MessageId | None) -> None:
        self._start = start
        self._begun: dict[str, str] = {}
        """By producer, the uuid of the message that it began last; in the order of beginnings."""
        self._parts: dict[str, list[bytes]] = {}
        """By producer, the chunks of that message, while it is unfinished; in the same order."""
        self._let_go: dict[str, str] = {}
        """By producer, why its unfinished message lost its chunks."""
        self._held = 0
        self._named = 0
        self._has_forgotten = False

    def needs_look_back(self, chunk: Chunk) -> bool:
        """Whether only entries before the reading can tell the message of a chunk."""
        is_known = self.knows(chunk.message.producer)
        return chunk.number > 0 and not is_known and not self._has_forgotten

    def knows(self, producer: str) -> bool:
        """Whether a producer has begun a message in this reading."""
        return producer in self._begun

    def add(self, chunk: Chunk) -> PulsarMessage | None:
        """Take the next chunk; return the message that it ends.

        Raises:
            UnreadableContentError: the message begins before `start`, one of its chunks is
                missing, it is larger than `BYTES_MAX`, or it was let go.
            CorruptEntryError: the joined bytes do not unpack.
        """
        packed = self._take(chunk)
        return None if packed is None else chunk.joined(packed)

    def remember(self, chunk: Chunk) -> None:
        """Take a chunk from before the reading: a message that it ends belongs to others. One that
        cannot be read is an error only if it goes on in the reading.
        """
        producer = chunk.message.producer
        try:
            self._take(chunk)
        except UnreadableContentError:
            self._release(producer)
            if self.knows(producer):
                self._let_go.setdefault(producer, _BROKEN)

    def _take(self, chunk: Chunk) -> bytes | None:
        producer = chunk.message.producer
        if chunk.number == 0:
            self._begin(producer, chunk.uuid)
        if self._begun.get(producer) != chunk.uuid:
            self._check_orphan(chunk)
            return None
        parts = self._parts.get(producer)
        if parts is None:
            self._check_held(chunk)
            return None
        if chunk.number < len(parts):  # sent again
            return None
        if chunk.number > len(parts):
            raise _refusal(chunk, f"chunk {len(parts)} is missing", "begin")
        parts.append(chunk.part)
        self._held += PART_BYTES + len(chunk.part)
        self._make_room(chunk)
        if len(parts) < chunk.count:
            return None
        self._release(producer)
        return b"".join(parts)

    def _begin(self, producer: str, uuid: str) -> None:
        if producer in self._parts and self._begun[producer] == uuid:  # sent again
            return
        self._forget(producer)
        self._begun[producer] = uuid
        self._parts[producer] = []
        self._named += weight(producer, uuid)
        while self._named > NAMES_BYTES_MAX:
            self._forget(next(iter(self._begun)))
            self._has_forgotten = True

    def _forget(self, producer: str) -> None:
        uuid = self._begun.pop(producer, None)
        if uuid is not None:
            self._named -= weight(producer, uuid)
            self._release(producer)
            self._let_go.pop(producer, None)

    def _release(self, producer: str) -> None:
        parts = self._parts.pop(producer, [])
        self._held -= sum(PART_BYTES + len(part) for part in parts)

    def _make_room(self, chunk: Chunk) -> None:
        """Let go of the oldest messages but the chunk's own, until the others take no more than
        the bound.
        """
        producer = chunk.message.producer
        while self._held > BYTES_MAX:
            oldest = next((each for each in self._parts if each != producer), None)
            if oldest is None:
                break
            self._release(oldest)
            self._let_go[oldest] = _CROWDED
        if self._held > BYTES_MAX or chunk.total > BYTES_MAX:
            raise UnreadableContentError(
                f"message {chunk.id}",
                f"has more than {BYTES_MAX} bytes, its chunks together",
                "read the topic with a Pulsar client",
            )

    def _check_held(self, chunk: Chunk) -> None:
        """Refuse a message that was let go. A complete message was sent again."""
        why = self._let_go.get(chunk.message.producer)
        if why is not None:
            raise _refusal(chunk, why, "read the topic with a Pulsar client, or begin")

    def _check_orphan(self, chunk: Chunk) -> None:
        """Refuse a message if its first chunks were passed over: the reader would miss it.

        A producer that has begun another message has given up, or completed, those before.
        """
        if self.knows(chunk.message.producer):
            return
        if self._start is not None and chunk.id >= self._start:
            raise _refusal(
                chunk,
                f"the reading from {self._start} has no chunk before it",
                "begin at an earlier message, or",
            )
        if self._has_forgotten:
            raise _refusal(
                chunk,
                f"names of producers with messages in chunks take more than {NAMES_BYTES_MAX} "
                "bytes, so the reading has forgotten where it began",
                "read less at a time (splitBytes in Spark), or begin",
            )


def weight(producer: str, uuid: str = "") -> int:
    """Return about the bytes of memory that the name of a producer and a uuid take."""
    return NAME_BYTES + len(producer) + len(uuid)


def _refusal(chunk: Chunk, why: str, remedy: str) -> UnreadableContentError:
    return UnreadableContentError(
        f"message {chunk.id}",
        f"is chunk {chunk.number} of {chunk.count}, and {why}",
        f"{remedy} after it, at {chunk.id.next}",
    )
