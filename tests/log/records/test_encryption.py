"""Encryption at rest: what a bookie holds tells nothing, what a key opens is what was written."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path
from typing import Any

import pytest

from quire.errors import ConfigurationError, CorruptEntryError, DecryptionError, EntryTooLargeError
from quire.log.manifest.options import LogOptions
from quire.log.records.batch import BATCH_BYTES_MAX, HEADER, Compression, decode_batch, encode_batch
from quire.log.records.encryption import (
    ENCRYPTION_BYTES,
    Decryption,
    Encryption,
    key_id_of,
    last_txid_of,
)
from quire.log.records.keyring import KEY_ID_BYTES_MAX, Keyring, read_key_file
from quire.log.records.position import BEGINNING, AtTxid, Position
from quire.log.records.producers import ProducerSequence
from tests.support.log_cluster import NAME, Client, LogCluster, append_all, numbered
from tests.support.memory_cluster import down

OLD, NEW = b"o" * 32, b"n" * 32
SECRET = b"attack at dawn, bring the horses"


def ring(**keys: bytes) -> Keyring:
    """The last one encrypts."""
    return Keyring(keys, current=list(keys)[-1])


def sealed(keyring: Keyring, payload: bytes, entry: int = 4) -> bytes:
    return Encryption(keyring, 7, bytes(16)).seal(payload, entry, 12)


def batch(*records: bytes, compression: Compression = Compression.NONE) -> bytes:
    return encode_batch(records, first_offset=3, epoch=1, timestamp_ms=9, compression=compression)


@pytest.mark.parametrize("compression", list(Compression))
def test_a_batch_opens_with_its_key_only_where_it_was_written(compression: Compression) -> None:
    plain = batch(SECRET * 9, b"", compression=compression)
    stored = sealed(ring(old=OLD), plain)
    assert SECRET[:8] not in stored
    assert stored[3 : HEADER.size] == plain[3 : HEADER.size], "positions are found without a key"
    assert (key_id_of(stored, 7, 4), last_txid_of(stored, 7, 4)) == ("old", 12)
    assert Decryption("log", ring(old=OLD, new=NEW)).open(stored, 2, 7, 4) == plain
    for ledger, entry in ((8, 4), (7, 5)):
        with pytest.raises(DecryptionError, match="moved"):
            Decryption("log", ring(old=OLD)).open(stored, 2, ledger, entry)
    with pytest.raises(CorruptEntryError, match="not opened"):
        decode_batch(stored, 7, 4)


def opened(stored: bytes) -> list[bytes]:
    plain = Decryption("log", ring(old=OLD)).open(stored, 1, 7, 4)
    return decode_batch(plain, 7, 4).payloads()


def test_every_byte_is_authenticated() -> None:
    stored = sealed(ring(old=OLD), batch(b"abc", b"de"))
    for at in range(len(stored)):
        changed = bytearray(stored)
        changed[at] ^= 1
        with pytest.raises((DecryptionError, CorruptEntryError)):
            opened(bytes(changed))
    for end in range(HEADER.size, len(stored)):
        with pytest.raises((DecryptionError, CorruptEntryError)):
            opened(stored[:end])


@pytest.mark.parametrize(
    ("keyring", "reason"),
    [
        (None, "no keyring was given"),
        (ring(new=NEW), "the keyring has no such key"),
        (ring(old=NEW), "another key"),
    ],
)
def test_a_batch_that_does_not_open_names_log_position_and_key(
    keyring: Keyring | None, reason: str
) -> None:
    with pytest.raises(DecryptionError, match=reason) as error:
        Decryption("orders", keyring).open(sealed(ring(old=OLD), batch(b"x")), 2, 7, 4)
    found = error.value
    assert (found.log, found.position, found.key_id) == ("orders", "2.4.0", "old")
    assert "'orders' at 2.4.0 is encrypted with key 'old'" in str(found)


def test_an_entry_is_never_encrypted_twice() -> None:
    encryption = Encryption(ring(old=OLD), 7, bytes(16))
    encryption.seal(batch(b"a"), 0, -1)
    encryption.seal(batch(b"b"), 1, -1)
    for entry in (0, 1):
        with pytest.raises(AssertionError, match="encrypted before"):
            encryption.seal(batch(b"c"), entry, -1)


def test_neither_ledgers_nor_salts_share_a_key() -> None:
    plain = batch(b"same")
    bodies = {
        Encryption(ring(old=OLD), ledger, salt).seal(plain, 0, -1)[-20:]
        for ledger in (7, 8)
        for salt in (bytes(16), b"s" * 16)
    }
    assert len(bodies) == 4


def test_a_keyring_refuses_what_is_no_key_and_stays_where_it_is() -> None:
    for keys, name in (
        ({"k": b"short"}, "5 bytes"),
        ({"": OLD}, "key id"),
        ({"x" * 65: OLD}, "id"),
    ):
        with pytest.raises(ConfigurationError, match=name):
            Keyring(keys)
    with pytest.raises(ConfigurationError, match="no key 'other'"):
        Keyring({"k": OLD}, current="other")
    asked: list[str] = []

    def look_up(key_id: str) -> bytes | None:
        asked.append(key_id)
        return OLD if key_id == "served" else None

    keyring = Keyring(look_up, current="served")
    assert Decryption("log", keyring).open(sealed(keyring, batch(b"x")), 1, 7, 4) == batch(b"x")
    assert asked == ["served"]
    assert "ooo" not in repr(keyring) + repr(LogOptions(keyring=keyring))
    with pytest.raises(TypeError, match="stays in its process"):
        pickle.dumps(keyring)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("# old ones\n\nb " + NEW.hex() + "\na  " + OLD.hex() + "\n", None),
        ("", "has no key"),
        ("a " + OLD.hex()[1:], "line 1 "),
        ("a " + OLD.hex() + "\na " + NEW.hex(), "line 2 "),
        ("a=" + OLD.hex(), "line 1 "),
    ],
)
def test_a_key_file_is_read_or_the_line_is_named(
    tmp_path: Path, text: str, problem: str | None
) -> None:
    file = tmp_path / "keys"
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_key_file(str(file))
    file.write_text(text)
    if problem is None:
        keyring = read_key_file(str(file))
        assert (keyring.current, keyring.key("a"), keyring.key("b")) == ("b", OLD, NEW)
        file.write_text(text, encoding="utf-8-sig")  # as some editors save it
        assert read_key_file(str(file)).current == "b"
        return
    with pytest.raises(ConfigurationError, match=problem) as error:
        read_key_file(str(file))
    assert OLD.hex()[1:] not in str(error.value)


async def payloads(client: Client, keyring: Keyring | None, start: Any = BEGINNING) -> list[bytes]:
    return [each.payload for each in await client.read(start, keyring=keyring)]


def stored_bytes(cluster: LogCluster) -> bytes:
    """Everything that the bookies hold."""
    return b"".join(
        frame for bookie in cluster.bookies.values() for each in bookie.ledgers.values()
        for frame in each.frames.values()
    )  # fmt: skip


async def test_a_log_is_encrypted_rotated_taken_over_and_read(cluster: LogCluster) -> None:
    client = cluster.new_client()
    plain = await client.open()
    await plain.append(b"plain")
    await plain.close()
    keyring = ring(new=NEW, old=OLD)
    log = await client.open(keyring=keyring, batch_records=2, compression="zstd")
    await append_all(log, [SECRET * 5] * 5)
    await log.roll()
    keyring.rotate("new")
    await log.append(SECRET, producer_sequence=ProducerSequence("p", 1), txid=6)
    log.abandon()
    other = await cluster.new_client().open(keyring=ring(old=OLD, new=NEW))
    await other.append(SECRET, producer_sequence=ProducerSequence("p", 1))  # known
    last, _ = await other.append(b"end", txid=7)
    await other.close()
    both = ring(old=OLD, new=NEW)
    expected = [b"plain", *[SECRET * 5] * 5, SECRET, b"end"]
    assert await payloads(client, both) == expected
    assert await payloads(client, both, AtTxid(7)) == [b"end"]
    with pytest.raises(DecryptionError, match=r"2\.0\.0 .* key 'old'"):
        await payloads(client, None)
    with pytest.raises(DecryptionError, match=r"3\.0\.0 .* key 'new'"):
        await payloads(client, ring(old=OLD))
    spans = await client.logs.snapshot(NAME)
    found = [
        payload
        for span in spans
        async for piece in client.logs.read_span(span, keyring=both)
        for payload in piece.payloads()
    ]
    assert found == expected
    with pytest.raises(DecryptionError, match="no keyring"):
        _ = [piece async for piece in client.logs.read_span(spans[-1])]
    assert (await client.logs.tail(NAME)).offset == len(expected)
    await client.logs.trim(NAME, Position(3, 0, 0))
    assert await payloads(client, both) == [SECRET, b"end"]
    assert await payloads(client, both, last) == [b"end"]
    assert SECRET[:6] not in stored_bytes(cluster)
    assert b"plain" in stored_bytes(cluster), "the test can see"


@pytest.mark.parametrize("keyring", [None, ring(new=NEW)])
async def test_who_lacks_the_key_deposes_nobody(
    cluster: LogCluster, keyring: Keyring | None
) -> None:
    log = await cluster.new_client().open(keyring=ring(old=OLD))
    await log.append(b"a")
    with pytest.raises(DecryptionError, match="key 'old'"):
        await cluster.new_client().open(keyring=keyring)
    await log.append(b"b")
    await log.close()
    assert (await cluster.new_client().manifest()).epoch == 1


async def test_a_batch_whose_ledger_failed_is_encrypted_again_for_the_next(
    cluster: LogCluster,
) -> None:
    client = cluster.new_client()
    keyring = ring(old=OLD)
    log = await client.open(keyring=keyring)
    await append_all(log, numbered(0, 5))
    for bookie in cluster.bookies.values():
        bookie.before = down("add")
    futures = [await log.submit(each) for each in numbered(5, 5)]
    await asyncio.sleep(4)
    for bookie in cluster.bookies.values():
        bookie.before = down("nothing")
    await asyncio.gather(*futures)
    await log.close()
    assert await payloads(client, keyring) == numbered(0, 10)
    manifest = await cluster.check()
    assert [each.number for each in manifest.segments] == [1, 2], "a ledger failed"


async def test_the_largest_record_still_fits_encrypted(cluster: LogCluster) -> None:
    client = cluster.new_client()
    keyring = Keyring({"x" * KEY_ID_BYTES_MAX: OLD}, current="x" * KEY_ID_BYTES_MAX)
    log = await client.open(keyring=keyring)
    with pytest.raises(EntryTooLargeError) as error:
        await log.append(bytes(BATCH_BYTES_MAX))
    assert error.value.limit == BATCH_BYTES_MAX - ENCRYPTION_BYTES - 4
    await log.append(bytes(error.value.limit))
    await log.close()
    assert [len(each) for each in await payloads(client, keyring)] == [error.value.limit]


async def test_a_transaction_is_found_without_the_keys_of_batches_before_it(
    cluster: LogCluster,
) -> None:
    """The key was rotated within a segment, and the old one is gone."""
    client, keyring = cluster.new_client(), Keyring({"o": OLD, "n": NEW}, current="o")
    async with await client.open(keyring=keyring, batch_records=2) as log:
        for number in range(12):
            if number == 8:
                keyring.rotate("n")
            await log.append(b"%d" % number, txid=number)
    for wanted in range(12):
        async with await client.logs.read(NAME, AtTxid(wanted), keyring=ring(n=NEW)) as reader:
            if wanted < 8:
                with pytest.raises(DecryptionError, match=f"at 1.{wanted}.0 "):
                    await anext(reader)
            else:
                found = [each.payload async for each in reader]
                assert found == numbered(wanted, 12 - wanted)
