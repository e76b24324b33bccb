"""Golden frames, runs and batches."""

from __future__ import annotations

from functools import partial
from typing import Any

from quire.entry import DigestKind, Entry, Sealer, access_key
from quire.log.records.attributes import Attributes, encode_attributes
from quire.log.records.batch import Compression, decode_batch, encode_batch
from quire.log.records.encryption import Decryption, Encryption
from quire.log.records.keyring import Keyring
from quire.log.records.producers import (
    Producers,
    decode_at,
    decode_columns,
    decode_stamps,
    encode_columns,
)
from quire.run import pack_run, split_run
from tests.golden.golden import Golden

KEY, SALT = bytes(range(32)), bytes(range(100, 116))
RECORDS = [b"buy", b"", b"sell" * 9]
FRAMES = [
    Sealer(7, DigestKind.CRC32C, b"secret").seal(entry, entry - 1, 10, payload)
    for entry, payload in enumerate(RECORDS, 3)
]
COLUMNS = bytes.fromhex(
    # 1: stamps of the producer "p\u00e9", sequence 4, none, 5
    "01 25000000 0100 0300 70c3a9 0000 ffff 0000 0400000000000000 0000000000000000 0500000000000000"
    # 2: a snapshot of "q", one append: sequence 6, offset 2, 1 record
    "02 19000000 0100 71 0100 0600000000000000 0200000000000000 01000000"
    # 3: the snapshot before, at offset 1
    "03 08000000 0100000000000000"
    # 4: the ids 5, 5, 9
    "04 18000000 0500000000000000 0500000000000000 0900000000000000"
    # 5: one forgotten producer, after 77 s
    "05 0c000000 0102030405060708 4d000000"
    # 99: a kind of a later program
    "63 02000000 6869"
)


KEYED = bytes.fromhex(
    # 6: the keys "ACME", "" and none
    "06 11000000 03 04000000 00000000 00000000 41434d45"
    # 7: headers: h\u00e9=1 and a without a value, none, h\u00e9 empty
    "07 2b000000 02000000 0100 61 0300 68c3a9 0200 0000 0100"
    "01000000 00000000 01000000 01000000 ffffffff 00000000 31"
    # 8: 5 ms before 1970, none, none
    "08 18000000 fbffffffffffffff 0000000000000080 0000000000000080"
)


def _batch(columns: bytes = b"", compression: Compression = Compression.NONE) -> bytes:
    return encode_batch(
        RECORDS,
        first_offset=3,
        epoch=2,
        timestamp_ms=1000,
        compression=compression,
        columns=columns,
    )


def _plain(data: bytes) -> Any:
    batch = decode_batch(data, 7, 0)
    header = batch.header
    return batch.payloads(), header.first_offset, header.epoch, header.timestamp_ms


def _with_columns(data: bytes) -> Any:
    batch = decode_batch(data, 7, 0)
    columns = decode_columns(batch.columns)
    memory = Producers.decode(columns[2], columns[5])
    return (
        *_plain(data),
        [tuple(each) if each else None for each in decode_stamps(columns[1], 3)],
        (memory.encode(), memory.encode_forgotten()) == (columns[2], columns[5]),
        decode_at(columns[3]),
        batch.txids,
        columns[99],
    )


def _keyed(data: bytes) -> Any:
    return *_plain(data), [tuple(each) for each in _attributes(data)]


def _attributes(data: bytes) -> list[Attributes]:
    return decode_batch(data, 7, 0).attributes.of_slots(range(3))


def _seal(data: bytes) -> bytes:
    return Encryption(Keyring({"k1": KEY}, current="k1"), 7, SALT).seal(data, 1, 9)


def _unseal(data: bytes) -> Any:
    return _plain(Decryption("log", Keyring({"k1": KEY})).open(data, 1, 7, 1))


def _frame(kind: DigestKind) -> Golden:
    sealer = Sealer(7, kind, b"secret")
    return Golden(
        f"{kind}.frame",
        Entry(7, 3, 2, 14, b"hello"),
        lambda: sealer.seal(3, 2, 14, b"hello"),
        lambda data: sealer.unseal(3, data),
        ("Frame", f"Frame: `{kind}`"),
    )


def _lac(kind: DigestKind) -> Golden:
    sealer = Sealer(7, kind, b"secret")
    return Golden(
        f"{kind}.lac",
        3,
        lambda: sealer.seal_lac(3),
        sealer.unseal_lac,
        (f"Frame: `{kind}`", "Frame: LAC packet"),
    )


PLACED = (RECORDS, 3, 2, 1000)
RECORD_FILES = (
    *(_frame(kind) for kind in DigestKind),
    *(_lac(kind) for kind in DigestKind),
    Golden(
        "access.key",
        True,
        lambda: access_key(b"secret"),
        lambda data: data == access_key(b"secret"),
        ("Frame: Access key",),
    ),
    Golden(
        "entries.run",
        list(enumerate(FRAMES, 3)),
        lambda: pack_run(FRAMES),
        lambda data: list(split_run(data)),
        ("Run",),
    ),
    Golden("plain.batch", PLACED, _batch, _plain, ("Batch",)),
    *(
        Golden(f"{kind}.batch", PLACED, partial(_batch, b"", kind), _plain, ("Batch",))
        for kind in (Compression.LZ4, Compression.ZSTD)
    ),
    Golden(
        "columns.batch",
        (*PLACED, [("p\u00e9", 4), None, ("p\u00e9", 5)], True, 1, (5, 5, 9), b"hi"),
        lambda: _batch(COLUMNS),
        _with_columns,
        ("Batch", *(f"Batch: column {kind}" for kind in range(1, 6))),
    ),
    Golden(
        "keyed.batch",
        (
            *PLACED,
            [
                (b"ACME", (("h\u00e9", b"1"), ("a", None)), -5),
                (b"", (), None),
                (None, (("h\u00e9", b""),), None),
            ],
        ),
        lambda: _batch(KEYED),
        _keyed,
        ("Batch", *(f"Batch: column {kind}" for kind in (6, 7, 8))),
    ),
    Golden("encrypted.batch", PLACED, lambda: _seal(_batch()), _unseal, ("Batch",)),
)
assert encode_columns(decode_columns(COLUMNS)) == COLUMNS
assert encode_columns(encode_attributes(_attributes(_batch(KEYED)))) == KEYED
