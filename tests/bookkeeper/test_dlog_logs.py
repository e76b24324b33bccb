"""Logs of DistributedLog read over the ledgers of a cluster with Apache's habits."""

from __future__ import annotations

import asyncio
import pickle
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

import quire
from quire.bookkeeper.dlog import log
from quire.bookkeeper.dlog.listing import ATTEMPTS_MAX, list_segments
from quire.bookkeeper.dlog.log import (
    DlogRecord,
    dlog_pieces,
    find_sequence,
    find_txid,
    read_dlog,
    read_piece,
)
from quire.bookkeeper.dlog.names import DlogName, Dlsn
from quire.client import Client
from quire.errors import (
    ConfigurationError,
    ConflictError,
    CorruptEntryError,
    CorruptRecordError,
    InvalidRequestError,
    NoSuchDlogError,
    UnauthorizedError,
    UnreadableContentError,
)
from quire.ledger.writer import LedgerWriter
from quire.metastore.memory import MemoryStore
from quire.metastore.store import MetadataStore, Versioned
from quire.testing import MemoryCluster
from tests.bookkeeper.test_connect import URI, cluster
from tests.support.apache_cluster import ROOT

pytestmark = pytest.mark.real_time

NAMESPACE = "/messaging/ns"
LOG = f"{NAMESPACE}/orders"
SEGMENTS = f"{LOG}/<default>/ledgers"
WHOLE, PARTIAL = 2, 1


def bound(ledgers: str = ROOT, servers: str = "zoo1", logs: str = "zoo1", more: str = "") -> bytes:
    fields = f'{{"1":{{"str":"{servers}"}},"2":{{"str":"{ledgers}"}},"6":{{"str":"{logs}"}}{more}}}'
    return f"1\nBKDL\n{fields}".encode()


async def make(store: MetadataStore, path: str, value: bytes) -> None:
    await store.create(path, value)


@asynccontextmanager
async def logs() -> AsyncIterator[tuple[MetadataStore, Client]]:
    """A cluster with a namespace and an empty log, and a client that may write ledgers."""
    async with cluster() as tree, quire.connect(f"{URI}&write=true") as client:
        store = tree.open()
        await make(store, NAMESPACE, bound())
        await make(store, SEGMENTS, b"0")
        yield store, client


def packet(*records: tuple[int, int, bytes]) -> bytes:
    """An entry: metadata, transaction id and payload of each record."""
    body = b"".join(struct.pack(">Qqi", meta, tx, len(data)) + data for meta, tx, data in records)
    return struct.pack(">BIII", 1, 0, len(body), len(body)) + body


def entries(first_txid: int, count: int, per_entry: int = 2) -> list[bytes]:
    """Entries of a segment: `per_entry` records and one for control in each."""
    made = []
    for begin in range(0, count, per_entry):
        numbers = range(begin, min(begin + per_entry, count))
        found = [((n + 1) << 16, first_txid + n, b"%d" % (first_txid + n)) for n in numbers]
        made.append(packet((begin << 16 | 1, first_txid, b"control"), *found))
    return made


async def write(client: Client, data: Sequence[bytes]) -> LedgerWriter:
    """Return the writer of a ledger that holds entries, all of them confirmed."""
    writer = await client.create_ledger()
    await writer.append_many(data)
    reader = await client.open_ledger_without_recovery(writer.ledger)
    await reader.last_acknowledged()
    await reader.close()
    return writer


async def complete(
    store: MetadataStore,
    client: Client,
    number: int,
    data: Sequence[bytes],
    *,
    truncation: int = 0,
    begin: tuple[int, int] = (0, 0),
    last: int | None = None,
    count: int = 4,
) -> int:
    """Add a complete segment of `count` records; return its ledger."""
    writer = await write(client, data)
    await writer.close()
    head = 5 | truncation << 8 | count << 32
    first, end = number * 10, number * 10 + count - 1
    entry = len(data) - 1 if last is None else last
    tail = f"{entry};0;{begin[0]};{begin[1]};{(number - 1) * count}"
    text = f"{head};{writer.ledger};{first};{end};1;{number};{tail}"
    await make(store, f"{SEGMENTS}/logrecs_{number:018d}", text.encode())
    return writer.ledger


async def unfinished(store: MetadataStore, writer: LedgerWriter, number: int) -> str:
    """Add an open segment; return the path of its record."""
    path = f"{SEGMENTS}/inprogress_{number:018d}"
    text = f"5;{writer.ledger};{number * 10};{number};0;0;-1"
    await make(store, path, text.encode())
    return path


async def read(client: Client, start: Dlsn | None = None) -> list[DlogRecord]:
    return [record async for record in read_dlog(client, LOG, start=start)]


def payloads(found: Sequence[DlogRecord]) -> list[int]:
    return [int(record.payload) for record in found]


async def test_a_log_is_read_whole_and_from_each_of_its_records() -> None:
    async with logs() as (store, client):
        for number in (1, 2, 3):
            await complete(store, client, number, entries(number * 10, 4))
        writer = await write(client, entries(40, 3))
        await unfinished(store, writer, 4)
        whole = await read(client)
        assert payloads(whole) == [10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33, 40, 41, 42]
        assert [record.txid for record in whole] == payloads(whole)
        assert [record.sequence for record in whole] == list(range(15))
        assert whole[0].dlsn == Dlsn(1, 0, 1), "the record for control has a slot"
        for number, record in enumerate(whole):
            assert await read(client, record.dlsn) == whole[number:]
            assert await read(client, record.dlsn.next) == whole[number + 1 :]
            assert await find_txid(client, LOG, record.txid) == record.dlsn
            assert await find_sequence(client, LOG, number) == record.dlsn
        assert await find_txid(client, LOG, 14) == whole[4].dlsn
        assert await find_txid(client, LOG, 0) == whole[0].dlsn
        assert await find_txid(client, LOG, 43) is None
        assert await find_sequence(client, LOG, 15) is None
        await writer.append(entries(99, 1)[0])  # nobody fenced it
        await writer.close()


async def test_pieces_are_read_by_other_clients() -> None:
    async with logs() as (store, client):
        for number in (1, 2):
            await complete(store, client, number, entries(number * 10, 8, per_entry=1), count=8)
        whole = await read(client)
        for most in (1, 3, 8, 100, None):
            pieces = [piece async for piece in dlog_pieces(client, LOG, entries_max=most)]
            sizes = [piece.last - piece.first + 1 for piece in pieces]
            expected = {1: [1] * 16, 3: [3, 3, 2] * 2}
            assert sizes == expected.get(most or 8, [8, 8])
            async with quire.connect(URI) as other:
                found = [
                    record
                    for piece in pickle.loads(pickle.dumps(pieces))
                    async for record in read_piece(other, piece)
                ]
            assert found == whole
        start = whole[5].dlsn
        pieces = [each async for each in dlog_pieces(client, LOG, start=start, entries_max=2)]
        assert pieces[0].first == start.entry
        found = [record for piece in pieces async for record in read_piece(client, piece)]
        assert found == whole[5:]
        with pytest.raises(InvalidRequestError, match="entries_max=0"):
            await anext(dlog_pieces(client, LOG, entries_max=0))


async def test_a_piece_is_read_whole_though_bookies_know_less_by_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with logs() as (store, client):
        await unfinished(store, await write(client, entries(10, 4)), 1)
        (piece,) = [piece async for piece in dlog_pieces(client, LOG)]

        async def nothing(*arguments: Any) -> int:
            return -1

        monkeypatch.setattr("quire.ledger.reader.covered_lac", nothing)
        async with quire.connect(URI) as other:
            found = [record async for record in read_piece(other, piece)]
        assert payloads(found) == [10, 11, 12, 13]


async def test_an_entry_with_many_records_leaves_turns_to_others() -> None:
    count = 3 * log.AT_ONCE
    many = packet(*((number << 16, 0, b"") for number in range(1, count + 1)))
    async with logs() as (store, client):
        await complete(store, client, 1, [many], count=count)
        seen = turns = 0
        async for _ in read_dlog(client, LOG):
            if seen == 0:
                waiting = asyncio.ensure_future(asyncio.sleep(0))
            seen += 1
            turns += waiting.done()
        assert seen == count
        assert turns > 0, "cancelling works between the records of an entry"


async def test_what_was_truncated_is_left_out() -> None:
    async with logs() as (store, client):
        gone = await complete(store, client, 1, entries(10, 4), truncation=WHOLE)
        await complete(store, client, 2, entries(20, 4), truncation=PARTIAL, begin=(1, 2))
        await complete(store, client, 3, entries(30, 4))
        await client.delete_ledger(gone)
        whole = await read(client)
        assert payloads(whole) == [23, 30, 31, 32, 33]
        assert payloads(await read(client, Dlsn(1, 0, 0))) == payloads(whole)
        assert payloads(await read(client, Dlsn(2, 0, 0))) == payloads(whole)
        assert payloads(await read(client, Dlsn(3, 1, 0))) == [32, 33]
        assert await read(client, Dlsn(4, 0, 0)) == []


async def test_an_open_segment_before_others_ends_the_reading_or_is_refused() -> None:
    async with logs() as (store, client):
        rolled = await write(client, entries(10, 4))
        await unfinished(store, rolled, 1)
        prepared = await client.create_ledger()
        await unfinished(store, prepared, 2)
        assert payloads(await read(client)) == [10, 11, 12, 13]
        pieces = dlog_pieces(client, LOG)
        await anext(pieces)
        await prepared.append_many(entries(20, 2))
        reader = await client.open_ledger_without_recovery(prepared.ledger)
        await reader.last_acknowledged()
        assert [piece async for piece in pieces] == [], "the first segment may have grown"
        with pytest.raises(UnreadableContentError, match=r"is open, and segment 2 .* has records"):
            await read(client)
        assert payloads(await read(client, Dlsn(2, 0, 0))) == [20, 21]
        await rolled.close()
        assert payloads(await read(client)) == [10, 11, 12, 13, 20, 21]


async def test_a_segment_that_is_completed_while_the_next_is_looked_at_is_read_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with logs() as (store, client):
        rolled = await write(client, entries(10, 4))
        await unfinished(store, rolled, 1)
        prepared = await client.create_ledger()
        await unfinished(store, prepared, 2)

        async def roll(*arguments: Any) -> bool:
            """The writer goes on, and ends the segment, before the next one is looked at."""
            monkeypatch.undo()
            await rolled.append(packet((5 << 16, 14, b"14")))
            await rolled.close()
            await prepared.append_many(entries(20, 2))
            await prepared.close()
            return await has_entries(*arguments)

        has_entries = log._has_entries
        monkeypatch.setattr(log, "_has_entries", roll)
        assert payloads(await read(client)) == [10, 11, 12, 13, 14, 20, 21]


async def test_missing_records_and_entries_are_errors() -> None:
    async with logs() as (store, client):
        ledger = await complete(store, client, 1, entries(10, 4)[1:], last=0)
        with pytest.raises(CorruptEntryError, match=f"ledger {ledger} .* of log {LOG}, record 3"):
            await read(client)
        assert payloads(await read(client, Dlsn(1, 0, 0).next)) == [12, 13], "the rest, as asked"
        await complete(store, client, 2, entries(20, 4), last=2)
        with pytest.raises(CorruptRecordError, match="ends with entry 1, and the segment with en"):
            await read(client, Dlsn(2, 0, 0))


async def test_bare_entries_of_old_segments_are_read() -> None:
    async with logs() as (store, client):
        writer = await write(client, [struct.pack(">Qqi", 1 << 16, 7, 2) + b"77"])
        await writer.close()
        text = f"{3 | 1 << 32};{writer.ledger};7;7;1;1;0;0;0;0"
        await make(
            store, f"{SEGMENTS}/logrecs_000000000000000007_000000000000000007", text.encode()
        )
        assert await read(client) == [DlogRecord(Dlsn(1, 0, 0), 7, b"77", None)]
        assert await find_sequence(client, LOG, 0) is None


async def test_an_end_of_the_log_is_no_record() -> None:
    async with logs() as (store, client):
        mark = packet((2 << 16 | 2, 2**63 - 1, b"endOfStream"))
        await complete(store, client, 1, [*entries(10, 2), mark], count=2)
        assert payloads(await read(client)) == [10, 11]


async def test_what_is_not_there_is_named() -> None:
    async with logs() as (store, client):
        assert await read(client) == []
        for name in (f"{NAMESPACE}/other", "/elsewhere/orders"):
            with pytest.raises(NoSuchDlogError, match=rf"log {name} is not at {name}/<default>"):
                await anext(read_dlog(client, name))
        await make(store, "/wide", bound(more=',"10":{"tf":1}'))
        with pytest.raises(UnreadableContentError, match=r"is federated: .*/wide/.subnamespaces"):
            await anext(read_dlog(client, "/wide/orders"))
        below = "/wide/.subnamespaces/NS_1"
        await make(store, below, b"")
        await make(store, f"{below}/orders/<default>/ledgers", b"0")
        assert [each async for each in read_dlog(client, f"{below}/orders")] == []


async def test_ledgers_with_a_password_need_it() -> None:
    async with logs() as (store, client):
        writer = await client.create_ledger(password=b"pw")
        await writer.append_many(entries(10, 2))
        await writer.close()
        await unfinished(store, writer, 1)
        found = [record async for record in read_dlog(client, LOG, password=b"pw")]
        assert payloads(found) == [10, 11]
        assert await find_txid(client, LOG, 11, password=b"pw") == found[1].dlsn
        with pytest.raises(UnauthorizedError):
            await read(client)


async def test_ledgers_of_another_cluster_are_never_read() -> None:
    async with logs() as (store, client):
        await complete(store, client, 1, entries(10, 4))
        found = await store.get(NAMESPACE)
        version = await store.put(NAMESPACE, bound(ledgers="/other"), found.version)
        with pytest.raises(ConfigurationError, match=r"at /other, .*\?ledgers=bookkeeper:/other"):
            await read(client)
        await store.put(NAMESPACE, bound(servers="zoo2"), version)
        with pytest.raises(UnreadableContentError, match=r"logs at zoo1:2181, .* at zoo2:2181"):
            await read(client)
    async with MemoryCluster() as own, quire.connect(own.store_uri) as client:
        with pytest.raises(ConfigurationError, match="has quire's own ledgers"):
            await read(client)


class Placed(MemoryStore):
    """A store that says it is at a ZooKeeper."""

    uri = "zk://zoo1:2181,zoo2:2181/root"


async def test_servers_and_roots_of_the_store_count() -> None:
    store = Placed()
    await make(store, NAMESPACE, bound(f"/root{ROOT}", "zoo2,zoo1", "zoo1,zoo2"))
    await make(store, SEGMENTS, b"0")
    for name in (LOG, f"distributedlog://zoo2,zoo1:2181{LOG}"):
        assert await list_segments(store, ROOT, DlogName.parse(name)) == []
    with pytest.raises(ConfigurationError, match=r"is at zoo3:2181, and the store zk://zoo1"):
        await list_segments(store, ROOT, DlogName.parse(f"distributedlog://zoo3{LOG}"))
    own = '1\nBKDL\n{"1":{"str":"zoo3"},"2":{"str":"/root/ledgers"}}'
    await store.put(NAMESPACE, own.encode(), (await store.get(NAMESPACE)).version)
    with pytest.raises(UnreadableContentError, match=r"logs at zoo1:2181, .* at zoo3:2181"):
        await list_segments(store, ROOT, DlogName.parse(LOG))


class Changing(MemoryStore):
    """A store in which another client changes a record after something was read."""

    def __init__(self, changes: list[tuple[str, str, str]]) -> None:
        """Take the record or list that is read, the path that changes, its value or "" for none."""
        super().__init__()
        self.changes = changes

    async def get(self, path: str) -> Versioned:
        found = await super().get(path)
        await self._change_after(path)
        return found

    async def children(self, path: str) -> list[str]:
        found = await super().children(path)
        await self._change_after(f"{path}/")
        return found

    async def _change_after(self, read: str) -> None:
        if self.changes and read == self.changes[0][0]:
            _, target, text = self.changes.pop(0)
            if text:
                await self.put(target, text.encode(), (await super().get(target)).version)
            else:
                await self.delete(target)


ONE, TWO = (f"{SEGMENTS}/logrecs_{number:018d}" for number in (1, 2))
ACTIVE, GONE = (f"{5 | truncation << 8};%d;1;1;1;%d;0;0;0;0;0" for truncation in (0, WHOLE))


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ([(ONE, ONE, GONE % (1, 1)), (TWO, TWO, "")], []),
        ([(ONE, TWO, "")], [1]),
        ([(f"{SEGMENTS}/", TWO, "")], [1]),
        ([(ONE, ONE, GONE % (1, 1))], [2]),
    ],
)
async def test_segments_are_listed_as_they_were_at_one_moment(
    changes: list[tuple[str, str, str]], left: list[int]
) -> None:
    store = Changing(list(changes))
    await make(store, NAMESPACE, bound())
    await make(store, SEGMENTS, b"0")
    await make(store, ONE, (ACTIVE % (1, 1)).encode())
    await make(store, TWO, (ACTIVE % (2, 2)).encode())
    found = await list_segments(store, ROOT, DlogName.parse(LOG))
    assert [each.number for each in found] == left


async def test_a_log_that_keeps_changing_is_an_error() -> None:
    value = ACTIVE % (1, 1)
    store = Changing([(ONE, ONE, value)] * ATTEMPTS_MAX)
    await make(store, NAMESPACE, bound())
    await make(store, SEGMENTS, b"0")
    await make(store, ONE, value.encode())
    with pytest.raises(ConflictError, match=f"{ONE} changed while the segments of {LOG}"):
        await list_segments(store, ROOT, DlogName.parse(LOG))
