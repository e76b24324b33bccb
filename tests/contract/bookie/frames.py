"""Frames and runs of one ledger, and its key."""

from __future__ import annotations

from quire.entry import DigestKind, EntryId, Sealer
from quire.run import pack_run, split_run

LEDGER = 7
SEALER = Sealer(LEDGER, DigestKind.CRC32C, b"secret")
KEY = SEALER.access_key
WRONG_KEY = Sealer(LEDGER, DigestKind.CRC32C, b"guess").access_key


def frame(entry: EntryId, payload: bytes = b"x", lac: EntryId | None = None) -> bytes:
    return SEALER.seal(entry, entry - 1 if lac is None else lac, 10_000_000, payload)


def run_of(*entries: EntryId, payload: bytes = b"x") -> bytes:
    return pack_run(frame(entry, payload) for entry in entries)


def ids(run: bytes) -> list[EntryId]:
    return [entry for entry, _ in split_run(run)]


def payloads(run: bytes) -> list[bytes]:
    return [SEALER.unseal(entry, bytes(frame)).payload for entry, frame in split_run(run)]
