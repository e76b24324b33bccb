"""Topics cut into pieces hold what one reader of the whole topic reads."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest

import quire
from quire.bookkeeper.pieces import EntryPlace, LedgerPiece, within
from quire.bookkeeper.protobuf import encode
from quire.bookkeeper.pulsar import chunks as joining
from quire.bookkeeper.pulsar import look_back
from quire.bookkeeper.pulsar.messages import Chunk, PulsarMessage, chunk_of
from quire.bookkeeper.pulsar.names import MessageId
from quire.bookkeeper.pulsar.pieces import list_pieces, read_piece
from quire.client import Client
from quire.errors import CorruptEntryError, CorruptRecordError, UnreadableContentError
from quire.ledger.options import LedgerOptions
from tests.bookkeeper.test_connect import URI, Tree, cluster
from tests.bookkeeper.test_pulsar_topics import MANAGED, read, register, write
from tests.support.pulsar import ENTRIES, chunk, entry, message

pytestmark = pytest.mark.real_time

TOPICS = 20


async def read_one(client: Client, piece: LedgerPiece) -> list[PulsarMessage]:
    return [each async for run in read_piece(client, piece) for each in run]


async def read_all(client: Client, parts: Sequence[LedgerPiece]) -> list[PulsarMessage]:
    return [message for piece in parts for message in await read_one(client, piece)]


class Producers:
    """Producers that send chunked messages at the same time, fail, and send again."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._now: dict[str, tuple[str, int, int]] = {}
        self._begun = 0

    def entries(self, count: int) -> list[bytes]:
        return [made for _ in range(count) for made in self._step()]

    def _step(self) -> list[bytes]:
        producer = self._rng.choice("abc")
        uuid, number, many = self._now.get(producer, ("", 0, 0))
        if number == many or self._rng.random() < 0.1:  # complete, or the producer failed
            self._begun += 1
            if self._rng.random() < 0.3:
                self._now.pop(producer, None)
                return [message(f"plain {self._begun}")]
            uuid, number, many = f"{producer}-{self._begun}", 0, self._rng.randint(2, 5)
        again = range(self._rng.randint(0, number), number) if self._rng.random() < 0.2 else ()
        self._now[producer] = (uuid, number + 1, many)
        return [
            chunk(producer, uuid, each, many, b"%-8s" % f"{uuid}:{each}".encode())
            for each in (*again, number)
        ]


async def store(client: Client, tree: Tree, topic: str, entries: list[bytes], cuts: int) -> None:
    """Write entries into ledgers of about the same size; all are closed."""
    bounds = [len(entries) * each // cuts for each in range(cuts + 1)]
    ledgers = []
    for first, end in pairwise(bounds):
        ledgers.append((await write(client, entries[first:end]), end - first))
    await register(tree, topic, ledgers)


async def test_wherever_a_topic_is_cut_its_messages_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(look_back, "STEP_FIRST", 2)  # several looks
    joined = 0
    async with cluster() as tree, quire.connect(f"{URI}&write=true") as client:
        for seed in range(TOPICS):
            await store(client, tree, f"t{seed}", Producers(seed).entries(30), 1 + seed % 4)
            whole = await read(client, f"t{seed}")
            listed = await list_pieces(client, f"t{seed}")
            assert await read_all(client, listed) == whole
            ones = [each for piece in listed for each in piece.split_into(piece.entries)]
            joined += sum(each.payload is not None and len(each.payload) > 8 for each in whole)
            assert await read_all(client, ones) == whole, f"seed {seed}"
            thirds = [each for piece in listed for each in piece.split_into(3)]
            assert await read_all(client, thirds) == whole, f"seed {seed}"
    assert joined > TOPICS, "messages of several chunks"


async def test_pieces_begin_at_places_and_end_at_others() -> None:
    entries = [message(str(number)) for number in range(6)]
    async with cluster() as tree, quire.connect(f"{URI}&write=true") as client:
        await store(client, tree, "orders", entries, 3)
        first, second, third = await list_pieces(client, "orders")
        assert [each.entries for each in (first, second, third)] == [2, 2, 2]
        assert (first.is_newest, third.is_newest) == (False, True)
        assert third.size is not None, "a closed ledger knows its length"
        begin = EntryPlace(second.number, 1)
        cut = await list_pieces(client, "orders", {-1: begin})
        assert [each.begin for each in cut] == [begin, third.begin]
        assert [each.since for each in cut] == [first.number] * 2
        found = [within(each, begin, EntryPlace(third.number, 1)) for each in (first, *cut)]
        assert [each.entries for each in found] == [0, 1, 1]
        assert [each.payload for each in await read_all(client, found)] == [b"3", b"4"]
        past = await list_pieces(client, "orders", {-1: EntryPlace(third.number, 2)})
        assert [each.entries for each in past] == [0]
        assert [each.payload for each in await read_all(client, past)] == []


async def test_partitions_have_pieces_of_their_own() -> None:
    async with cluster() as tree, quire.connect(f"{URI}&write=true") as client:
        for number in (0, 2):
            ledger = await write(client, [message(f"of {number}")])
            await register(tree, f"parted-partition-{number}", [(ledger, 1)])
        path = "/admin/partitioned-topics/public/default/persistent/parted"
        await tree.open().create(path, b'{"partitions": 3}')
        listed = await list_pieces(client, "parted")
        assert [each.part for each in listed] == [0, 2]
        assert {each.log for each in listed} == {"persistent://public/default/parted"}
        assert await read_all(client, listed) == await read(client, "parted")
        (one,) = await list_pieces(client, "parted-partition-2")
        assert [each.payload for each in await read_one(client, one)] == [b"of 2"]


async def test_a_confirmed_entry_stays_confirmed_for_every_reader() -> None:
    silent = LedgerOptions(lac_idle=3600)
    async with cluster() as tree, quire.connect(f"{URI}&write=true", options=silent) as client:
        writer = await client.create_ledger()
        for number in range(3):
            await writer.append(message(str(number)))
        await register(tree, "open", [(writer.ledger, 0)])
        (piece,) = await list_pieces(client, "open")
        assert (piece.is_newest, piece.size, piece.last) == (True, None, 1)
        told = piece.narrow(0, 2)  # as a reader knows that heard of entry 2 from its writer
        assert [each.payload for each in await read_one(client, told)] == [b"0", b"1", b"2"]
        await writer.append(message("3"))  # nothing was fenced
        await writer.close()


async def test_a_message_that_began_in_a_deleted_ledger_is_named() -> None:
    entries = [chunk("a", "a-1", 0, 2), chunk("a", "a-1", 1, 2), message("after")]
    async with cluster() as tree, quire.connect(f"{URI}&write=true") as client:
        first = await write(client, entries[:1])
        second = await write(client, entries[1:])
        await register(tree, "trimmed", [(first, 1), (second, 2)])
        before = await list_pieces(client, "trimmed")
        listed = [(1, encode([(1, second), (2, 2)]))]
        found = await tree.open().get(f"{MANAGED}/trimmed")
        await tree.open().put(f"{MANAGED}/trimmed", encode(listed), found.version)
        with pytest.raises(UnreadableContentError, match=r"topic .*trimmed.* ledger that it began"):
            await read_one(client, before[1])
        await client.delete_ledger(first, force=True)
        with pytest.raises(UnreadableContentError, match=f"ledger {first} of topic .*deleted"):
            await read_one(client, before[0])
        later = await list_pieces(client, "trimmed")
        assert [each.payload for each in await read_all(client, later)] == [b"after"]


class Looks:
    """Counts the entries that looks back read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entries = 0
        self._real = chunk_of
        monkeypatch.setattr(look_back, "chunk_of", self._count)

    def _count(self, at: MessageId, data: bytes) -> Chunk | None:
        self.entries += 1
        return self._real(at, data)


async def test_each_entry_is_looked_at_a_few_times_however_many_messages_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = Looks(monkeypatch)
    monkeypatch.setattr(look_back, "STEP_FIRST", 1)
    monkeypatch.setattr(look_back, "STEP_MAX", 2)
    before = 60
    begun = [chunk(f"p{number}", f"u{number}", 0, 2) for number in range(before)]
    ended = [chunk(f"p{number}", f"u{number}", 1, 2) for number in reversed(range(before))]
    nowhere = [chunk(f"q{number}", f"v{number}", 1, 2) for number in range(before)]
    async with cluster() as tree, quire.connect(f"{URI}&write=true") as client:
        await store(client, tree, "orders", [*begun, *ended, *nowhere], 3)
        first, second, third = await list_pieces(client, "orders")
        assert len(await read_one(client, second)) == before
        assert looks.entries <= 4 * before
        looks.entries = 0
        assert await read_one(client, third) == []
        assert looks.entries <= 4 * 2 * before
        assert await read_all(client, [first, second, third]) == await read(client, "orders")


async def test_a_look_back_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [chunk("a", "a-1", 0, 2), *(message(str(number)) for number in range(50))]
    async with cluster() as tree, quire.connect(f"{URI}&write=true") as client:
        await store(client, tree, "far", [*entries, chunk("a", "a-1", 1, 2), message("on")], 1)
        (whole,) = await list_pieces(client, "far")
        late = whole.narrow(51, 52)
        assert [each.payload for each in await read_one(client, late)] == [b"xx", b"on"]
        for name, bound in (("ENTRIES_MAX", 20), ("LOOKED_BYTES_MAX", 100)):
            with monkeypatch.context() as smaller:
                smaller.setattr(look_back, name, bound)
                smaller.setattr(look_back, "STEP_FIRST", 2)
                why = r":51:-1 is chunk 1 of 2, and [0-9]+ entries of [0-9]+ bytes.*entry 51"
                with pytest.raises(UnreadableContentError, match=why) as refused:
                    await read_one(client, late)
                assert "producer 'a': read the topic whole" in str(refused.value)
                after = whole.narrow(52, 52)
                assert [each.payload for each in await read_one(client, after)] == [b"on"]
        assert [each.payload for each in await read(client, "far")][-2:] == [b"xx", b"on"]


async def test_a_look_back_holds_a_bounded_number_of_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(look_back, "STEP_FIRST", 2)
    begun = [chunk(f"p{number:02}", "u", 0, 2) for number in range(30)]
    async with cluster() as tree, quire.connect(f"{URI}&write=true") as client:
        await store(client, tree, "names", [*begun, chunk("p00", "u", 1, 2)], 1)
        (whole,) = await list_pieces(client, "names")
        late = whole.narrow(30, 30)
        assert len(await read_one(client, late)) == 1
        monkeypatch.setattr(look_back, "NAMES_BYTES_MAX", 10 * joining.weight("p00"))
        with pytest.raises(UnreadableContentError, match="producer 'p00'"):
            await read_one(client, late)


async def test_a_piece_goes_as_far_as_the_ledger_where_the_list_counts_less() -> None:
    entries = [message("0"), message("1"), chunk("a", "a-1", 0, 2)]
    rest = [chunk("a", "a-1", 1, 2), message("on")]
    async with cluster() as tree, quire.connect(f"{URI}&write=true") as client:
        for counted in range(4):
            ledgers = [await write(client, each) for each in (entries, rest)]
            await register(tree, f"t{counted}", [(ledgers[0], counted), (ledgers[1], 2)])
            whole = await read(client, f"t{counted}")
            assert [each.payload for each in whole] == [b"0", b"1", b"xx", b"on"]
            listed = await list_pieces(client, f"t{counted}")
            assert [each.entries for each in listed] == [3, 2]
            assert await read_all(client, listed) == whole
        short = await write(client, entries)
        newest = await write(client, rest)
        await register(tree, "short", [(short, 4), (newest, 2)])
        with pytest.raises(CorruptRecordError, match="ends with entry 2, and 4 entries"):
            await list_pieces(client, "short")


async def test_errors_name_topic_ledger_and_remedy() -> None:
    secret = message("x", (14, "RSA"))
    async with cluster() as tree, quire.connect(f"{URI}&write=true") as client:
        ledger = await write(client, [message("plain"), secret, chunk("a", "u", 1, 2)])
        await register(tree, "mixed", [(ledger, 3)])
        (piece,) = await list_pieces(client, "mixed")
        assert len(await read_one(client, piece.narrow(0, 0))) == 1
        with pytest.raises(UnreadableContentError, match="encrypted") as refused:
            await read_one(client, piece)
        assert "topic persistent://public/default/mixed: message" in str(refused.value)
        assert f"{ledger}:1" in str(refused.value)
        # A look back passes over it: the piece before delivers the error.
        assert await read_one(client, piece.narrow(2, 2)) == []
        broken = await write(client, [entry([(1, "p")])])
        await register(tree, "broken", [(broken, 1)])
        (piece,) = await list_pieces(client, "broken")
        with pytest.raises(CorruptEntryError, match=r"topic .*broken: entry 0 of ledger"):
            await read_one(client, piece)


async def test_an_offloaded_ledger_is_refused_where_it_is_wanted() -> None:
    async with cluster() as tree, quire.connect(f"{URI}&write=true") as client:
        gone = await write(client, [])
        here = await write(client, [ENTRIES["plain"]])
        away = encode([(1, gone), (2, 5), (5, encode([(3, 1), (4, 1)]))])
        listed = encode([(1, away), (1, encode([(1, here), (2, 1)]))])
        await tree.open().create(f"{MANAGED}/away", listed)
        with pytest.raises(UnreadableContentError, match=r"topic .*away is in long-term storage"):
            await read_all(client, await list_pieces(client, "away"))
        later = await list_pieces(client, "away", {-1: EntryPlace(here, 0)})
        assert [each.payload for each in await read_all(client, later)] == [b"hello"]
