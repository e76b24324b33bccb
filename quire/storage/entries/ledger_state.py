"""A bookie's state of a ledger besides its entries. One object per ledger, permanently.

`fence` is set the moment a fencing request is accepted, `is_fenced` once that is durable: between
the two no ordinary add is accepted and no client is told about it. Waiters are woken when
the ledger's hint moves or it is fenced. A ledger that was only waited for has no key and does not
count as known.

A state row (docs/formats.md, "Entry log") is what an entry-log file keeps of it, big-endian:

    | ledger i64 | flags u8 | hint i64 | key bytes u16 | packet bytes u16 | key | packet |

A ledger is *in limbo* if the bookie may have lost entries of it, its fence or its key
(salvage.py). It is fenced, and until it is whole again nothing is said to be absent from it. Its
key may be lost as well; then a row carries the key's check, from metadata, instead.
"""

from __future__ import annotations

import asyncio
import hmac
import struct
from typing import Final

from quire.entry import (
    LAC_HEADER,
    NO_ENTRY,
    EntryId,
    LedgerId,
    guards_reads,
    is_checked,
    is_of_guarded_reads,
)
from quire.errors import InvalidRequestError

FENCED: Final = 1
LIMBO: Final = 2
KEY_LOST: Final = 4
KEY_BYTES_MAX: Final = 64
PACKET_BYTES_MAX: Final = LAC_HEADER.size + 32

_ROW: Final = struct.Struct(">qBqHH")


class LedgerState:
    """See the module. Written by the storage node only."""

    __slots__ = (
        "accepted",
        "check",
        "fence",
        "hint",
        "in_limbo",
        "is_fenced",
        "is_key_durable",
        "key",
        "last",
        "ledger",
        "packet",
        "packet_lac",
        "waiters",
    )

    def __init__(self, ledger: LedgerId) -> None:
        self.ledger: Final = ledger
        self.key: bytes | None = None
        self.is_key_durable = False
        self.check = ""
        """The check of a lost key, which the right key passes; "" when it is not known."""
        self.fence: asyncio.Future[None] | None = None
        self.is_fenced = False
        self.in_limbo = False
        self.hint: EntryId = NO_ENTRY
        self.last: EntryId = NO_ENTRY
        """The highest id held."""
        self.accepted: EntryId = NO_ENTRY
        """The highest id of a run that was accepted in this life, durable or not."""
        self.packet: bytes | None = None
        self.packet_lac: EntryId = NO_ENTRY
        self.waiters: list[asyncio.Future[None]] = []

    @property
    def confirmed(self) -> EntryId:
        """The highest LAC in anything held: the hint of `LedgerTail`."""
        return max(self.hint, self.packet_lac)

    @property
    def highest(self) -> EntryId:
        """No entry above it is held, or on its way to the disk."""
        return max(self.last, self.accepted)

    def accepts(self, key: bytes) -> bool:
        """Tell, in constant time, whether this is the ledger's key (or its first)."""
        if self.key is None:
            return not self.check or is_checked(key, self.check)
        return hmac.compare_digest(self.key, key)

    def is_of(self, check: str) -> bool:
        """Tell whether the ledger's key passes the check in its record, as far as both are known.
        Every entry held was added with that key.
        """
        return self.key is None or not check or is_checked(self.key, check)

    def lets_read(self, key: bytes) -> bool:
        """Tell whether entries may be given to a reader with a key, empty for none."""
        has_guard = is_of_guarded_reads(self.check) if self.key is None else guards_reads(self.key)
        return not has_guard or self.accepts(key)

    @property
    def is_known(self) -> bool:
        """Something is remembered of the ledger: it is not merely waited for."""
        return self.key is not None or bool(self.check) or self.last != NO_ENTRY

    def doubt(self, check: str = "") -> None:
        """Put the ledger into limbo: anything of it may have been lost, its fence included."""
        self.in_limbo = self.is_fenced = True
        if self.key is None and check:
            self.check = check

    def set_packet(self, packet: bytes) -> bool:
        """Keep an explicit LAC if it is the highest; tell whether it was."""
        lac = packet_lac(self.ledger, packet)
        if lac <= self.packet_lac:
            return False
        self.packet, self.packet_lac = packet, lac
        return True

    def close_door(self) -> None:
        """The fence is durable, or the ledger's id is retired: calls that wait look again."""
        self.is_fenced, self.fence = True, None
        self.wake()

    def wake(self) -> None:
        """Let all waiters look again."""
        if self.waiters:
            waiters, self.waiters = self.waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)


def packet_lac(ledger: LedgerId, packet: bytes) -> EntryId:
    """Return the LAC of a packet. Raises `InvalidRequestError` for another ledger's."""
    if not LAC_HEADER.size <= len(packet) <= PACKET_BYTES_MAX:
        raise InvalidRequestError(f"LAC packet of {len(packet)} bytes is impossible")
    found, lac = LAC_HEADER.unpack_from(packet)
    if found != ledger or lac < NO_ENTRY:
        raise InvalidRequestError(f"LAC packet names ledger {found}, LAC {lac}")
    return int(lac)


def encode_row(state: LedgerState) -> bytes:
    """Return the state row of a known ledger."""
    key, packet = state.key, state.packet or b""
    flags = (FENCED if state.is_fenced else 0) | (LIMBO if state.in_limbo else 0)
    if key is None:
        flags, key = flags | KEY_LOST, bytes.fromhex(state.check)
    return _ROW.pack(state.ledger, flags, state.hint, len(key), len(packet)) + key + packet


def decode_rows(data: bytes) -> list[LedgerState]:
    """Return the states of a block of rows that passed its checksum."""
    states: list[LedgerState] = []
    offset = 0
    while offset < len(data):
        ledger, flags, hint, key_size, packet_size = _ROW.unpack_from(data, offset)
        offset += _ROW.size
        state = LedgerState(ledger)
        key = data[offset : offset + key_size]
        if flags & KEY_LOST:
            state.check = key.hex()
        else:
            state.key, state.is_key_durable = key, True
        offset += key_size
        if packet_size:
            state.set_packet(data[offset : offset + packet_size])
        offset += packet_size
        state.hint = hint
        state.is_fenced = bool(flags & FENCED)
        state.in_limbo = bool(flags & LIMBO)
        states.append(state)
    return states
