"""Entries and lists of ledgers of Pulsar: golden bytes of its own libraries, damage, refusals."""

from __future__ import annotations

import struct
from contextlib import suppress

import lz4.block
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.bookkeeper.protobuf import Field, encode
from quire.bookkeeper.pulsar import chunks
from quire.bookkeeper.pulsar.chunks import Chunks
from quire.bookkeeper.pulsar.compression import UNPACKED_BYTES_MAX, unpack
from quire.bookkeeper.pulsar.managed_ledger import ManagedLedgerPart, decode_managed_ledger
from quire.bookkeeper.pulsar.messages import Chunk, PulsarMessage, decode_entry
from quire.bookkeeper.pulsar.names import MessageId, TopicName
from quire.errors import (
    ConfigurationError,
    CorruptEntryError,
    CorruptRecordError,
    InvalidRequestError,
    QuireError,
    UnreadableContentError,
)
from tests.support.pulsar import AGAIN, ENTRIES, entry
from tests.support.pulsar import chunk as chunk_entry

AT = MessageId(-1, 7, 3)
BASE: list[Field] = [(1, "p"), (2, 5), (3, 1000)]


def messages(name: str) -> list[PulsarMessage]:
    found = decode_entry(AT, ENTRIES[name])
    assert isinstance(found, list)
    return found


def test_a_message_has_what_its_producer_gave() -> None:
    (one,) = messages("plain")
    assert one == PulsarMessage(
        id=AT,
        payload=b"hello",
        key=b"k1",
        ordering_key=b"\x01\x02",
        properties={"colour": "red"},
        publish_ms=1_700_000_000_000,
        event_ms=1_600_000_000_000,
        producer="maker",
        sequence=0,
        index=None,
    )
    (null,) = messages("null")
    assert (null.payload, null.key, null.event_ms) == (None, b"\xff\x00", None)
    assert messages("marker") == []
    (indexed,) = messages("indexed")
    assert (indexed.payload, indexed.index) == (b"counted", 4)


@pytest.mark.parametrize("codec", ["LZ4", "ZLIB", "ZSTD", "SNAPPY"])
def test_payloads_are_unpacked(codec: str) -> None:
    assert [each.payload for each in messages(codec)] == [AGAIN]


def test_a_batch_is_taken_apart() -> None:
    found = messages("batch")
    assert [each.payload for each in found] == [b"zero", b"one", b"two"]
    assert [each.key for each in found] == [b"b0", b"b1", b"b2"]
    assert [each.properties for each in found] == [{"n": "b0"}, {"n": "b1"}, {"n": "b2"}]
    assert [str(each.id) for each in found] == ["7:3:-1:0", "7:3:-1:1", "7:3:-1:2"]
    assert [each.event_ms for each in found] == [1_500_000_000_000] * 3


def test_the_index_of_a_batch_is_that_of_its_last_message() -> None:
    broker = encode([(2, 9)])
    data = b"\x0e\x02" + struct.pack(">I", len(broker)) + broker + ENTRIES["batch"]
    found = decode_entry(AT, data)
    assert isinstance(found, list)
    assert [each.index for each in found] == [7, 8, 9]


def test_chunks_are_joined() -> None:
    first, last = (decode_entry(AT, ENTRIES[name]) for name in ("chunk0", "chunk1"))
    assert isinstance(first, Chunk)
    assert isinstance(last, Chunk)
    whole = Chunks(None)
    assert whole.add(first) is None
    assert whole.add(first) is None, "sent again"
    found = whole.add(last)
    assert found is not None
    assert found.payload == AGAIN
    assert Chunks(None).add(last) is None, "its beginning left the topic"
    with pytest.raises(UnreadableContentError, match="begin at an earlier message"):
        Chunks(AT).add(last)
    assert Chunks(AT.next).add(last) is None, "read before"


def test_an_unfinished_message_ends_with_the_next_of_its_producer() -> None:
    def chunk(uuid: str, number: int, part: bytes) -> Chunk:
        fields = [*BASE, (26, uuid), (27, 2), (28, 2), (29, number)]
        found = decode_entry(AT, entry(fields, part))
        assert isinstance(found, Chunk)
        return found

    joining = Chunks(None)
    assert joining.add(chunk("one", 0, b"a")) is None
    assert joining.add(chunk("two", 0, b"b")) is None
    assert joining.add(chunk("one", 1, b"c")) is None
    found = joining.add(chunk("two", 1, b"d"))
    assert found is not None
    assert found.payload == b"bd"


@pytest.mark.parametrize("start", [None, AT])
def test_a_missing_chunk_is_named(start: MessageId | None) -> None:
    def chunk(number: int) -> Chunk:
        at = MessageId(-1, 7, 3 + number)
        fields = [*BASE, (26, "u"), (27, 4), (28, 4), (29, number)]
        found = decode_entry(at, entry(fields))
        assert isinstance(found, Chunk)
        return found

    joining = Chunks(start)
    assert joining.add(chunk(0)) is None
    with pytest.raises(UnreadableContentError, match="7:5:-1 is chunk 2 of 4, and chunk 1 is miss"):
        joining.add(chunk(2))
    after = chunk(2).id.next
    with pytest.raises(UnreadableContentError, match=r"has no chunk before it.* at 7:6:-1:0"):
        Chunks(after).add(chunk(3))
    assert Chunks(chunk(3).id.next).add(chunk(3)) is None


def test_chunks_beyond_the_limit_are_refused() -> None:
    fields = [*BASE, (26, "u"), (27, 2), (28, UNPACKED_BYTES_MAX + 1), (29, 0)]
    chunk = decode_entry(AT, entry(fields))
    assert isinstance(chunk, Chunk)
    with pytest.raises(UnreadableContentError, match="bytes"):
        Chunks(None).add(chunk)


def part(producer: str, uuid: str, number: int, count: int, size: int = 1) -> Chunk:
    """Return a chunk of a message; entries are counted from 1 by its number."""
    found = decode_entry(
        MessageId(-1, 7, 1 + number), chunk_entry(producer, uuid, number, count, b"x" * size)
    )
    assert isinstance(found, Chunk)
    return found


def test_messages_that_never_end_are_let_go_the_oldest_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chunks, "BYTES_MAX", 10 * (chunks.PART_BYTES + 100))
    joining = Chunks(None)
    for number in range(5000):  # five times the number that was refused once
        assert joining.add(part(f"p{number}", f"u{number}", 0, 3, 100)) is None
    assert joining._held <= chunks.BYTES_MAX
    assert joining.add(part("p4999", "u4999", 1, 3, 100)) is None
    found = joining.add(part("p4999", "u4999", 2, 3, 100))
    assert found is not None
    assert found.payload == b"x" * 300
    with pytest.raises(UnreadableContentError, match=r"7:2:-1 is chunk 1 of 3, .*began later.*7:2"):
        joining.add(part("p7", "u7", 1, 3, 100))
    # Its producer gave it up, and sends the next one.
    assert joining.add(part("p7", "next", 0, 2)) is None
    assert joining.add(part("p7", "u7", 1, 3, 100)) is None
    found = joining.add(part("p7", "next", 1, 2))
    assert found is not None


@pytest.mark.parametrize("why", ["a gap", "size"])
def test_a_message_before_the_reading_is_an_error_only_if_it_goes_on(
    why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "BYTES_MAX", 1000)
    for is_over in (True, False):
        joining = Chunks(None)
        joining.remember(part("wanted", "w", 0, 2))
        joining.remember(part("other", "o", 0, 4, 600))
        joining.remember(part("other", "o", 1 if why == "size" else 2, 4, 600))
        assert joining._held <= 1000
        if is_over:  # it ends before the reading, or never
            found = joining.add(part("wanted", "w", 1, 2))
            assert found is not None
            assert joining.add(part("other", "next", 0, 2)) is None
            assert joining.add(part("other", "next", 1, 2)) is not None
        else:
            with pytest.raises(UnreadableContentError, match="before the reading have a gap"):
                joining.add(part("other", "o", 3, 4, 600))


def test_one_producer_is_remembered_once_however_many_messages_it_gives_up() -> None:
    joining = Chunks(None)
    for number in range(1000):
        assert joining.add(part("p", f"u{number}", 0, 3)) is None
    assert len(joining._begun) == len(joining._parts) == 1
    assert joining._held == chunks.PART_BYTES + 1


def test_names_of_producers_have_a_bound_past_which_nothing_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chunks, "NAMES_BYTES_MAX", 10 * chunks.weight("p00", "u"))
    joining = Chunks(None)
    assert joining.add(part("other", "u", 1, 2)) is None, "its beginning left the topic"
    for number in range(20):
        assert joining.add(part(f"p{number:02}", "u", 0, 2)) is None
    assert len(joining._begun) == 10
    assert joining.add(part("p19", "u", 1, 2)) is not None
    late = part("p00", "u", 1, 2)
    assert not joining.needs_look_back(late), "it began after the place that a look begins at"
    with pytest.raises(UnreadableContentError, match=r"chunk 1 of 2, and names.*splitBytes"):
        joining.add(late)


def test_chunks_sent_again_after_the_last_one_are_no_message_of_before_the_start() -> None:
    joining = Chunks(MessageId(-1, 7, 0))
    assert joining.add(part("p", "u", 0, 2)) is None
    assert joining.add(part("p", "u", 1, 2)) is not None
    assert joining.add(part("p", "u", 1, 2)) is None
    with pytest.raises(UnreadableContentError, match="no chunk before it"):
        joining.add(part("q", "u", 1, 2))


def test_equal_uuids_of_two_producers_are_two_messages() -> None:
    joining = Chunks(None)
    assert joining.add(part("p", "u", 0, 2, 1)) is None
    assert joining.add(part("q", "u", 0, 2, 2)) is None
    found = [joining.add(part(name, "u", 1, 2, size)) for name, size in (("q", 2), ("p", 1))]
    assert [each and each.payload for each in found] == [b"xxxx", b"xx"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ([(13, encode([(1, "key"), (2, b"v")]))], "encrypted"),
        ([(22, 0), (23, 1)], "transaction"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(fields: list[Field], why: str) -> None:
    with pytest.raises(UnreadableContentError, match=rf"7:3:-1 is .*{why}.*Pulsar client"):
        decode_entry(AT, entry([*BASE, *fields]))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "ends inside a size"),
        (b"\x0e\x01\x00", "ends inside its checksum"),
        (ENTRIES["plain"][:-1], "checksum"),
        (struct.pack(">I", 100) + b"x", "100 bytes of metadata"),
        (entry([(2, 5), (3, 1)]), "field 1 is missing"),
        (entry([*BASE, (8, 9), (9, 1)]), "codec 9"),
        (entry([*BASE, (8, 1), (9, UNPACKED_BYTES_MAX + 1)]), "limit"),
        (entry([*BASE, (8, 2), (9, 1)], b"zz"), "ZLIB"),
        (entry([*BASE, (8, 3), (9, 1)]), "ZSTD"),
        (entry([*BASE, (8, 4), (9, 1)], b"\xff\xff"), "Snappy"),
        (
            entry([*BASE, (8, 1), (9, 5)], lz4.block.compress(b"four", store_size=False)),
            "announced",
        ),
        (entry([*BASE, (11, 2)], b"\0\0\0\x02\x18\x01x"), "ends inside a size"),
        (entry([*BASE, (11, 1)], b"\0\0\0\x02\x18\x05x"), "5 bytes, 1 left"),
        (entry([*BASE, (11, 0)]), "follow a batch"),
        (entry([*BASE, (6, "?"), (17, 1)]), "Base64"),
        (entry([*BASE, (26, "u"), (27, 2), (28, 9), (29, 2)]), "chunk 2 of 2"),
    ],
)
def test_damaged_entries_are_errors(data: bytes, why: str) -> None:
    with pytest.raises(CorruptEntryError, match=f"entry 3 of ledger 7 is corrupt: .*{why}"):
        decode_entry(AT, data)


@given(st.sampled_from(sorted(ENTRIES)), st.data())
def test_a_changed_byte_is_an_error(name: str, data: st.DataObject) -> None:
    """The checksum covers all but the broker's part in front of it."""
    whole = bytearray(ENTRIES[name])
    begin = whole.index(b"\x0e\x01") + 2
    where = data.draw(st.integers(begin, len(whole) - 1))
    whole[where] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptEntryError):
        decode_entry(AT, bytes(whole))


@given(st.binary(max_size=200))
def test_any_bytes_are_messages_or_a_typed_error(noise: bytes) -> None:
    for data in (noise, struct.pack(">I", len(noise)) + noise, entry(BASE, noise)):
        with suppress(QuireError):
            decode_entry(AT, data)


@given(st.integers(0, 4), st.binary(max_size=100), st.integers(-1, 300))
def test_unpacking_gives_the_announced_size_or_an_error(codec: int, data: bytes, size: int) -> None:
    try:
        found = unpack(codec, data, size)
    except ValueError:
        return
    assert codec == 0 or len(found) == size


def test_the_list_of_ledgers_in_its_forms() -> None:
    away = encode([(3, 1), (4, 1)])
    plain = encode(
        [
            (1, encode([(1, 27), (2, 9), (5, away)])),
            (1, encode([(1, 28), (2, 3), (3, 144), (5, encode([(3, 1)]))])),
            (1, encode([(1, 29), (2, 0)])),
        ]
    )
    expected = (
        ManagedLedgerPart(27, 9, is_offloaded=True),
        ManagedLedgerPart(28, 3, 144),
        ManagedLedgerPart(29, 0),
    )
    text = (
        b"ledgerInfo { ledgerId: 27 entries: 9 offloadContext { complete: true "
        b"bookkeeperDeleted: true } }\nledgerInfo { ledgerId: 28 entries: 3 size: 144 }\n"
        b"ledgerInfo {\n  ledgerId: 29\n}\n"
    )
    head = encode([(1, 1), (2, len(plain))])
    packed = lz4.block.compress(plain, store_size=False)
    compressed = struct.pack(">HI", 0x4778, len(head)) + head + packed
    for data in (plain, text, compressed):
        assert decode_managed_ledger("/m", data) == expected
    assert decode_managed_ledger("/m", b"") == ()
    for bad in (
        compressed[:-1],
        compressed[:5],
        struct.pack(">HI", 0x4778, 99),
        encode([(1, encode([(2, 1)]))]),
        encode([(1, encode([(1, 5)])), (1, encode([(1, 4)]))]),
        b"ledgerInfo { ledgerId: x }",
        b"\xff",
    ):
        with pytest.raises(CorruptRecordError, match="/m"):
            decode_managed_ledger("/m", bad)


def test_a_name_of_other_bytes_than_text_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"topic 'orders\\udcff' is not UTF-8"):
        TopicName.parse("orders\udcff")


def test_names_of_topics() -> None:
    long = "persistent://public/default/a+b c~*"
    name = TopicName.parse(long)
    assert str(name) == long
    assert TopicName.parse("a+b c~*") == TopicName.parse("public/default/a+b c~*") == name
    assert name.path == "/managed-ledgers/public/default/persistent/a%2Bb+c%7E*"
    assert name.partition(3).number == 3
    assert name.number == -1
    for bad in ("non-persistent://a/b/c", "a/b", "persistent://a/b/c/d", ""):
        with pytest.raises(ConfigurationError, match="form persistent"):
            TopicName.parse(bad)


@given(
    st.builds(MessageId, *[st.integers(-1, 9)], *[st.integers(0, 2**62)] * 2, st.integers(-1, 9))
)
def test_ids_are_read_as_they_are_written(one: MessageId) -> None:
    assert MessageId.parse(str(one)) == one
    assert one < one.next
    for bad in ("", "1", "1:2:3:4:5", "-1:2", "a:b"):
        with pytest.raises(InvalidRequestError, match="form LEDGER:ENTRY"):
            MessageId.parse(bad)
