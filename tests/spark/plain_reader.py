"""Reads a log by docs/formats.md alone: its ledgers, and the batches in their entries.

It shares no code with the data source, nor with any other reader of logs. So a defect of theirs
does not hide a defect of what was written.
"""

from __future__ import annotations

import struct
from typing import Final

import quire.sync

HEADER: Final = struct.Struct(">2sBBIIqqq")


def payloads_of(entry: bytes) -> tuple[int, list[bytes]]:
    """Return the first offset of a plain batch, and its payloads."""
    magic, version, codec, count, size, first, _, _ = HEADER.unpack_from(entry)
    assert (magic, codec) == (b"qb", 0), "not a plain batch"
    assert version in (1, 2)
    body = entry[HEADER.size :]
    assert len(body) == size
    lengths = struct.unpack_from(f"<{count}I", body)
    at, found = size - sum(lengths), list[bytes]()
    for length in lengths:
        found.append(body[at : at + length])
        at += length
    return first, found


def read_plainly(store: str, log: str) -> list[bytes]:
    """Return the confirmed payloads of a log in order, after a check that their offsets have no
    gap; nothing for a log that does not exist.
    """
    found: list[bytes] = []
    with quire.sync.connect(store) as client:
        if log not in client.list_logs():
            return found
        for segment in client.log_info(log).segments:
            base = segment.first_offset or 0 if segment.is_ingested else 0
            with client.open_ledger_without_recovery(segment.ledger) as ledger:
                for entry in ledger.read():
                    first, payloads = payloads_of(entry.payload)
                    assert base + first == len(found), f"offset {base + first} of {log!r}"
                    found += payloads
    return found
