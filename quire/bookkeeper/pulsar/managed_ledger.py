"""The record of a managed ledger: the list of its ledgers. Pure.

fields of a message                                     plain
text of a message                                       of the first releases
0x4778 | size u32 | {codec 1, size 2} | packed fields   compressed
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from quire.bookkeeper import text_format
from quire.bookkeeper.protobuf import MalformedError, Message
from quire.bookkeeper.pulsar.compression import unpack
from quire.errors import CorruptRecordError

_PACKED: Final = struct.Struct(">HI")
_MAGIC: Final = 0x4778
_TEXT: Final = ("ledgerInfo", "terminatedPosition", "properties")
"""Names of the fields in text. A plain message begins with 0x0a, 0x12 or 0x1a, never a letter."""


@dataclass(frozen=True, slots=True)
class ManagedLedgerPart:
    """One ledger of a topic."""

    ledger: int
    entries: int
    """How many entries it has, 0 while it is open."""
    size: int = 0
    """Its payload in bytes, 0 while it is open."""
    is_offloaded: bool = False
    """Whether its only copy is in long-term storage."""


def decode_managed_ledger(path: str, data: bytes) -> tuple[ManagedLedgerPart, ...]:
    """Return the ledgers of a topic, oldest first. Raises `CorruptRecordError`."""
    try:
        parts = _decode(data)
        if any(left.ledger >= right.ledger for left, right in itertools.pairwise(parts)):
            raise MalformedError("the ids of ledgers do not ascend")
    except (MalformedError, UnicodeDecodeError) as error:
        raise CorruptRecordError(path, str(error)) from error
    return parts


def _decode(data: bytes) -> tuple[ManagedLedgerPart, ...]:
    if data[:2] == _MAGIC.to_bytes(2, "big"):
        data = _unpacked(data)
    if data.lstrip().startswith(tuple(name.encode() for name in _TEXT)):
        return tuple(_of_text(text_format.parse(data.decode())))
    return tuple(map(_of_message, map(Message, Message(data).parts(1))))


def _unpacked(data: bytes) -> bytes:
    if len(data) < _PACKED.size:
        raise MalformedError(f"the packed list ends after {len(data)} bytes")
    _, size = _PACKED.unpack_from(data)
    begin = _PACKED.size + size
    if begin > len(data):
        raise MalformedError(f"a head of {size} bytes in {len(data)} bytes")
    head = Message(data[_PACKED.size : begin])
    return unpack(head.number(1), data[begin:], head.number(2))


def _of_message(info: Message) -> ManagedLedgerPart:
    away = Message(info.data(5, b""))
    return _part(
        info.number(1),
        info.number(2, 0),
        info.number(3, 0),
        is_offloaded=bool(away.number(3, 0)) and bool(away.number(4, 0)),
    )


def _of_text(fields: Iterable[text_format.TextField]) -> Iterable[ManagedLedgerPart]:
    for name, value in fields:
        if name != "ledgerInfo" or not isinstance(value, tuple):
            continue
        inner = dict(value)
        ledger, entries, size = (inner.get(key, 0) for key in ("ledgerId", "entries", "size"))
        if "ledgerId" not in inner or not all(isinstance(n, int) for n in (ledger, entries, size)):
            raise MalformedError(f"ledgerId {ledger!r}, entries {entries!r}, size {size!r}")
        away = inner.get("offloadContext", ())
        flags = dict(away) if isinstance(away, tuple) else {}
        gone = flags.get("complete") == "true" and flags.get("bookkeeperDeleted") == "true"
        yield _part(ledger, entries, size, is_offloaded=gone)


def _part(ledger: int, entries: int, size: int, *, is_offloaded: bool) -> ManagedLedgerPart:
    if ledger < 0 or entries < 0 or size < 0:
        raise MalformedError(f"ledger {ledger} of {entries} entries and {size} bytes")
    return ManagedLedgerPart(ledger, entries, size, is_offloaded)
