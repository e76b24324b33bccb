"""Entries of topics that Apache Pulsar's own libraries made, and what they hold.

`tests/interop/Topics.java` prints `tests/bookkeeper/pulsar_entries.txt`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import google_crc32c

from quire.bookkeeper.protobuf import Field, encode

FILE = Path(__file__).parents[1] / "bookkeeper" / "pulsar_entries.txt"
ENTRIES = {
    name: bytes.fromhex(data) for name, data in map(str.split, FILE.read_text().splitlines())
}
AGAIN = b"again " * 100
PAYLOADS = [b"hello", None, *[AGAIN] * 4, b"zero", b"one", b"two", AGAIN, b"counted"]
"""The payloads of the messages of all entries, in order: the marker is none, the chunks are one."""


def entry(fields: Sequence[Field], payload: bytes = b"x") -> bytes:
    """Return an entry with metadata of these fields, as a producer sends it."""
    head = encode(fields)
    rest = struct.pack(">I", len(head)) + head + payload
    return b"\x0e\x01" + struct.pack(">I", google_crc32c.value(rest)) + rest


def chunk(producer: str, uuid: str, number: int, count: int, part: bytes = b"x") -> bytes:
    """Return an entry with a chunk of a message; all chunks have the same length."""
    fields: list[Field] = [(1, producer), (2, 5), (3, 1000), (26, uuid), (27, count)]
    return entry([*fields, (28, count * len(part)), (29, number)], part)


def message(text: str, *more: Field) -> bytes:
    """Return an entry with one message."""
    return entry([(1, "p"), (2, 5), (3, 1000), *more], text.encode())
