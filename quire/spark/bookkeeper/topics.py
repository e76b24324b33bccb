"""Topics of Apache Pulsar as a system of Spark's format `bookkeeper`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from quire.bookkeeper.pieces import EntryPlace, LedgerPiece
from quire.bookkeeper.pulsar.messages import PulsarMessage
from quire.bookkeeper.pulsar.names import SINGLE, MessageId, TopicName
from quire.bookkeeper.pulsar.pieces import list_pieces, read_piece
from quire.client_ledgers import LedgerClient
from quire.errors import ConfigurationError, UnreadableContentError
from quire.spark.bookkeeper.system import RecordPlace, RowColumn

_MS_MAX: Final = (2**63 - 1) // 1000
"""The last millisecond that a timestamp of Spark holds: it counts microseconds."""

_TIME: Final = pa.timestamp("us", tz="UTC")

OF_MESSAGE_BYTES: Final = 256
"""The memory of a message beside its bytes."""


def _time(name: str, of: Callable[[PulsarMessage], int | None]) -> RowColumn:
    def value(piece: LedgerPiece, message: PulsarMessage) -> int | None:
        found = of(message)
        if found is None:
            return None
        if not 0 <= found <= _MS_MAX:
            raise UnreadableContentError(
                f"message {message.id} of topic {piece.log}",
                f"has {name} {found}, which no timestamp holds",
                f"leave the column out: name the others in option 'columns', without {name!r}",
            )
        return found * 1000

    return RowColumn("timestamp", _TIME, value)


def _of(spark: str, arrow: pa.DataType, of: Callable[[PulsarMessage], Any]) -> RowColumn:
    return RowColumn(spark, arrow, lambda piece, message: of(message))


COLUMNS: Final[Mapping[str, RowColumn]] = {
    "topic": RowColumn("string", pa.string(), lambda piece, message: piece.log),
    "partition": _of("int", pa.int32(), lambda message: message.id.partition),
    "ledger": _of("long", pa.int64(), lambda message: message.id.ledger),
    "entry": _of("long", pa.int64(), lambda message: message.id.entry),
    "batch_index": _of("int", pa.int32(), lambda message: message.id.batch_index),
    "message_id": _of("string", pa.string(), lambda message: str(message.id)),
    "producer": _of("string", pa.string(), lambda message: message.producer),
    "sequence": _of("long", pa.int64(), lambda message: message.sequence),
    "topic_index": _of("long", pa.int64(), lambda message: message.index),
    "publish_time": _time("publish_time", lambda message: message.publish_ms),
    "event_time": _time("event_time", lambda message: message.event_ms),
    "key": _of("binary", pa.binary(), lambda message: message.key),
    "ordering_key": _of("binary", pa.binary(), lambda message: message.ordering_key),
    "properties": _of(
        "map<string, string>",
        pa.map_(pa.string(), pa.string()),
        lambda message: list(message.properties.items()),
    ),
    "payload": _of("binary", pa.binary(), lambda message: message.payload),
}


class Topics:
    """Topics: a record is a message, a part is a partition, a place is a message id."""

    @property
    def columns(self) -> Mapping[str, RowColumn]:
        """See `ForeignSystem`."""
        return COLUMNS

    def full_names(self, names: Sequence[str], store: str) -> tuple[str, ...]:
        """See `ForeignSystem`. A topic holds its partitions."""
        found = dict.fromkeys(map(TopicName.parse, names))
        for one in found:
            if one.number != SINGLE and one.whole in found:
                raise ConfigurationError(
                    f"topic {one} is partition {one.number} of {one.whole}, which is named as "
                    "well: its messages would be read twice, so name one of them"
                )
        return tuple(map(str, found))

    def parse_place(self, text: str) -> tuple[int, RecordPlace]:
        """See `ForeignSystem`."""
        found = MessageId.parse(text)
        return found.partition, _place(found)

    def place_of(self, record: PulsarMessage) -> RecordPlace:
        """See `ForeignSystem`."""
        return _place(record.id)

    def bytes_of(self, record: PulsarMessage) -> int:
        """See `ForeignSystem`."""
        return OF_MESSAGE_BYTES + len(record.payload or b"")

    async def list_pieces(
        self, client: LedgerClient, log: str, begins: Mapping[int, EntryPlace], password: bytes
    ) -> Sequence[LedgerPiece]:
        """See `ForeignSystem`."""
        return await list_pieces(client, log, begins, password=password)

    def read_piece(
        self, client: LedgerClient, piece: LedgerPiece, password: bytes
    ) -> AsyncGenerator[Sequence[PulsarMessage], None]:
        """See `ForeignSystem`."""
        return read_piece(client, piece, password=password)


def _place(message: MessageId) -> RecordPlace:
    return RecordPlace(message.ledger, message.entry, message.batch_index)
