"""A system in memory whose logs format `bookkeeper` reads, in place of topics."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from quire.bookkeeper.pieces import EntryPlace, LedgerPiece
from quire.client_ledgers import LedgerClient
from quire.errors import UnreadableContentError
from quire.spark.bookkeeper import planning, reading
from quire.spark.bookkeeper.options import ForeignOptions
from quire.spark.bookkeeper.system import RecordPlace, RowColumn
from quire.spark.bookkeeper.systems import SYSTEMS
from quire.sync.portal import Portal

URI = "zk://nowhere:1/?ledgers=bookkeeper:/ledgers"
Fact = tuple[int, int, int, str]
"""Part, number of the ledger, entry, text."""


class ForeignSystemInMemory:
    """Logs with parts; the last ledger of each is open. An entry has one record."""

    columns: Mapping[str, RowColumn] = {
        "part": RowColumn("int", pa.int32(), lambda piece, fact: fact[0]),
        "number": RowColumn("long", pa.int64(), lambda piece, fact: fact[1]),
        "entry": RowColumn("long", pa.int64(), lambda piece, fact: fact[2]),
        "text": RowColumn("string", pa.string(), lambda piece, fact: fact[3]),
    }

    def __init__(self) -> None:
        self.ledgers: dict[tuple[str, int], dict[int, list[str]]] = {}
        self.unconfirmed = 0
        """Entries at the end of open ledgers that bookies answering now do not know of."""
        self.truncated: dict[int, int] = {}
        """The first entries that are left in ledgers, 0 where nothing is told."""
        self.recreated = 0
        """What the numbers of ledgers grew by when the log was recreated."""
        self.asked: list[str] = []

    def append(self, log: str, part: int, *texts: str) -> None:
        ledgers = self.ledgers.setdefault((log, part), {})
        if not ledgers:
            self.roll(log, part)
        ledgers[max(ledgers)].extend(texts)

    def roll(self, log: str, part: int) -> None:
        """Close the ledger, and begin another."""
        number = 1 + max((max(each) for each in self.ledgers.values() if each), default=0)
        self.ledgers.setdefault((log, part), {})[number] = []

    def full_names(self, names: Sequence[str], store: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(names))

    def parse_place(self, text: str) -> tuple[int, RecordPlace]:
        part, number, entry = map(int, text.split(":"))
        return part, RecordPlace(number, entry, -1)

    def place_of(self, record: Fact) -> RecordPlace:
        return RecordPlace(record[1], record[2], -1)

    def bytes_of(self, record: Fact) -> int:
        return len(record[3])

    async def list_pieces(
        self, client: LedgerClient, log: str, begins: Mapping[int, EntryPlace], password: bytes
    ) -> Sequence[LedgerPiece]:
        self.asked.append(log)
        return [
            piece
            for (name, part), ledgers in sorted(self.ledgers.items())
            if name == log
            for piece in self._pieces(log, part, ledgers, begins.get(part, EntryPlace(0, 0)))
        ]

    def _pieces(
        self, log: str, part: int, ledgers: Mapping[int, list[str]], begin: EntryPlace
    ) -> Iterator[LedgerPiece]:
        for number, texts in ledgers.items():
            if number < begin.number:
                continue
            is_newest = number == max(ledgers)
            last = len(texts) - 1 - (self.unconfirmed if is_newest else 0)
            first = begin.entry if number == begin.number else 0
            first = max(first, self.truncated.get(number, 0))
            size = None if is_newest else sum(map(len, texts))
            ledger = number + 100 + self.recreated
            piece = LedgerPiece(log, part, number, ledger, 0, last, size, is_newest, min(ledgers))
            yield piece.narrow(first, max(last, first - 1))

    async def read_piece(
        self, client: LedgerClient, piece: LedgerPiece, password: bytes
    ) -> AsyncGenerator[Sequence[Fact], None]:
        texts = self.ledgers[piece.log, piece.part].get(piece.number)
        if texts is None:
            raise UnreadableContentError(f"ledger {piece.ledger}", "was deleted", "read again")
        assert piece.last < len(texts), "only confirmed entries"
        for entry in range(piece.first, piece.last + 1):
            yield [(piece.part, piece.number, entry, texts[entry])]


@contextmanager
def in_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[ForeignSystemInMemory]:
    """Let option `topic` name logs in memory, in the block."""
    system = ForeignSystemInMemory()
    client: Any = SimpleNamespace(_client=None, _portal=Portal.shared())
    with monkeypatch.context() as patch:
        patch.setitem(SYSTEMS, "topic", system)
        for module in (planning, reading):
            patch.setattr(module, "worker_client", lambda cluster: client)
        yield system


def options(**more: str) -> ForeignOptions:
    """Return the options of a batch."""
    return ForeignOptions.parse({"cluster": URI, "topic": "orders", **more})


def stream_options(**more: str) -> ForeignOptions:
    """Return the options of a stream."""
    return ForeignOptions.parse({"cluster": URI, "topic": "orders", **more}, streaming=True)


def rows(reader: Any, partitions: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the rows of partitions, one task after the other."""
    return [
        tuple(row.values())
        for partition in partitions
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]
