"""Topics of Pulsar read over the ledgers of a cluster with Apache's habits."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

import quire
from quire.bookkeeper.protobuf import encode
from quire.bookkeeper.pulsar.messages import PulsarMessage
from quire.bookkeeper.pulsar.names import MessageId
from quire.bookkeeper.pulsar.topic import read_topic
from quire.client import Client
from quire.errors import CorruptRecordError, NoSuchTopicError, UnreadableContentError
from tests.bookkeeper.test_connect import URI, Tree, cluster
from tests.support.pulsar import ENTRIES, PAYLOADS

pytestmark = pytest.mark.real_time

MANAGED = "/managed-ledgers/public/default/persistent"


async def write(client: Client, entries: Sequence[bytes], *, close: bool = True) -> int:
    """Return the ledger that holds entries; left open, the last of them is not confirmed."""
    writer = await client.create_ledger()
    await writer.append_many(entries)
    if close:
        await writer.close()
    return writer.ledger


async def register(tree: Tree, topic: str, ledgers: Sequence[tuple[int, int]]) -> None:
    parts = [(1, encode([(1, ledger), (2, entries)])) for ledger, entries in ledgers]
    await tree.open().create(f"{MANAGED}/{topic}", encode(parts))


async def read(client: Client, topic: str, start: MessageId | None = None) -> list[PulsarMessage]:
    return [message async for message in read_topic(client, topic, start=start)]


async def test_a_topic_is_read_whole_and_from_each_of_its_messages() -> None:
    entries = list(ENTRIES.values())
    async with cluster() as tree, quire.connect(f"{URI}&write=true") as writing:
        first = await write(writing, entries[:5])
        empty = await write(writing, [])
        last = await write(writing, entries[5:])
        await register(tree, "orders", [(first, 5), (empty, 0), (last, len(entries) - 5)])
        async with quire.connect(URI) as client:
            whole = await read(client, "orders")
            assert [each.payload for each in whole] == PAYLOADS
            assert sorted(whole, key=lambda each: each.id) == whole
            joined = PAYLOADS.index(b"two") + 1
            for number, message in enumerate(whole):
                assert await read(client, "orders", message.id.next) == whole[number + 1 :]
                if number != joined:
                    assert await read(client, "orders", message.id) == whole[number:]
            with pytest.raises(UnreadableContentError, match="begin at an earlier message"):
                await read(client, "orders", whole[joined].id)


async def test_an_open_ledger_is_read_to_its_last_confirmed_entry() -> None:
    async with cluster() as tree, quire.connect(f"{URI}&write=true") as writing:
        writer = await writing.create_ledger()
        await writer.append(ENTRIES["plain"])
        await writer.append(ENTRIES["batch"])
        await register(tree, "open", [(writer.ledger, 0)])
        async with quire.connect(URI) as client:
            found = [each.payload for each in await read(client, "open")]
        assert found in ([b"hello"], [b"hello", b"zero", b"one", b"two"])
        await writer.append(ENTRIES["plain"])  # nobody fenced it
        await writer.close()


async def test_an_open_ledger_before_the_newest_is_refused() -> None:
    async with cluster() as tree, quire.connect(f"{URI}&write=true") as client:
        writer = await client.create_ledger()
        await writer.append_many([ENTRIES["plain"], ENTRIES["indexed"]])
        newest = await write(client, [ENTRIES["plain"]])
        await register(tree, "torn", [(writer.ledger, 0), (newest, 1)])
        with pytest.raises(UnreadableContentError, match="not closed, and newer ones"):
            await read(client, "torn")
        later = await read(client, "torn", MessageId(-1, newest, 0))
        assert [each.payload for each in later] == [b"hello"]
        await writer.close()
        whole = await read(client, "torn")
        assert [each.payload for each in whole] == [b"hello", b"counted", b"hello"]


async def test_partitions_are_read_one_after_the_other() -> None:
    async with cluster() as tree, quire.connect(f"{URI}&write=true") as client:
        for number, name in ((0, "plain"), (2, "indexed")):
            ledger = await write(client, [ENTRIES[name], ENTRIES[name]])
            await register(tree, f"parted-partition-{number}", [(ledger, 2)])
        counted = json.dumps({"partitions": 3}).encode()
        path = "/admin/partitioned-topics/public/default/persistent/parted"
        version = await tree.open().create(path, counted)
        whole = await read(client, "parted")
        assert [each.payload for each in whole] == [b"hello"] * 2 + [b"counted"] * 2
        assert [each.id.partition for each in whole] == [0, 0, 2, 2]
        for number, message in enumerate(whole):
            assert await read(client, "parted", message.id.next) == whole[number + 1 :]
        assert await read(client, "parted-partition-2") == whole[2:]
        for bad in (b"{}", b"[]", b"x", b'{"partitions": -1}', b"[" * 100_000):
            version = await tree.open().put(path, bad, version)
            with pytest.raises(CorruptRecordError, match="partitions"):
                await read(client, "parted")


async def test_what_cannot_be_read_is_an_error_with_its_remedy() -> None:
    async with cluster() as tree, quire.connect(f"{URI}&write=true") as client:
        ledger = await write(client, [ENTRIES["plain"]])
        away = encode([(1, ledger), (2, 1), (5, encode([(3, 1), (4, 1)]))])
        await tree.open().create(f"{MANAGED}/away", encode([(1, away)]))
        with pytest.raises(UnreadableContentError, match="long-term storage only"):
            await read(client, "away")
        await register(tree, "short", [(ledger, 2)])
        with pytest.raises(CorruptRecordError, match="ends with entry 0, and 2 entries"):
            await read(client, "short")
        with pytest.raises(NoSuchTopicError, match=r"Oxia, etcd"):
            await read(client, "missing")
