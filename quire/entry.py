"""Entries, the frames they travel in, and the keys that authenticate them.

A *frame* is an entry as it travels and as it is stored (docs/formats.md, "Frame"), big-endian:

    | ledger i64 | entry i64 | LAC i64 | length i64 | digest (0–32 bytes) | payload |

`length` is the number of payload bytes of the ledger up to and including this entry. The digest
covers the header and the payload, so a frame cannot be passed off as another entry of the same
ledger.

The module is pure: values and functions, no clock and no I/O.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
import zlib
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import lru_cache, partial
from operator import lt
from typing import Final, NamedTuple, TypeAlias

import google_crc32c

from quire.errors import CorruptEntryError, EntryTooLargeError

LedgerId: TypeAlias = int
EntryId: TypeAlias = int
BookieId: TypeAlias = str

NO_ENTRY: Final = -1
"""The entry id before the first: the LAC of a ledger without confirmed entries."""

ENTRY_MAX: Final = 2**63 - 1
"""The highest id an entry can have."""

ENTRY_BYTES_MAX: Final = 4 * 1024 * 1024
"""Largest payload of one entry, in bytes."""

HEADER: Final = struct.Struct(">qqqq")
LAC_HEADER: Final = struct.Struct(">qq")

_crc32c_value = google_crc32c.value
_crc32c_extend = google_crc32c.extend


def as_bytes(payload: object) -> bytes:
    """Return a payload as immutable bytes: a copy if the caller could still change the payload.

    Raises `TypeError` if the payload is not bytes-like. A function that takes payloads calls this
    first: a wrong payload must be found before others wait after it.
    """
    if type(payload) is bytes:
        return payload
    if isinstance(payload, (bytes, bytearray, memoryview)):
        return bytes(payload)
    raise TypeError(f"a payload is bytes, not {type(payload).__name__}")


class DigestKind(StrEnum):
    """How a frame is protected. CRC kinds detect accidents, HMAC kinds also a lying bookie."""

    CRC32C = "crc32c"
    CRC32 = "crc32"
    HMAC_SHA1 = "hmac-sha1"
    HMAC_SHA256 = "hmac-sha256"
    NONE = "none"


DIGEST_BYTES: Final[dict[DigestKind, int]] = {
    DigestKind.CRC32C: 4,
    DigestKind.CRC32: 8,
    DigestKind.HMAC_SHA1: 20,
    DigestKind.HMAC_SHA256: 32,
    DigestKind.NONE: 0,
}


FrameParts: TypeAlias = tuple[bytes, bytes, bytes]
"""Header, digest and payload of a frame."""


class Entry(NamedTuple):
    """One verified record of a ledger.

    `lac` and `length` are what its writer knew when it sealed the frame: the last confirmed entry,
    and the payload bytes of the ledger up to and including this entry.
    """

    ledger: LedgerId
    entry: EntryId
    lac: EntryId
    length: int
    payload: bytes


_as_entry: Final = partial(tuple.__new__, Entry)
"""`Entry._make` without a call of Python's for each entry."""


_KEY_BYTES: Final = 20
_READS: Final = b"R"
_CHECK_BYTES: Final = 32


def access_key(password: bytes, *, guards_reads: bool = False) -> bytes:
    """The 20-byte master key that bookies keep for a ledger and compare on every add and fence.

    A key that guards reads begins with one byte more. So each bookie that has the key knows it, and
    needs no record: reads go on while the metadata store is away.
    """
    if not password and not guards_reads:
        return OPEN_KEY
    return _key(password, guards_reads=guards_reads)


def _key(password: bytes, *, guards_reads: bool = False) -> bytes:
    key = hashlib.sha1(b"ledger" + password).digest()
    return _READS + key if guards_reads else key


def guards_reads(access_key: bytes) -> bool:
    """Return whether reads of a ledger with this key need the key."""
    return len(access_key) == len(_READS) + _KEY_BYTES and access_key.startswith(_READS)


def is_of_guarded_reads(check: str) -> bool:
    """Return whether a check is of a key that guards reads."""
    return len(check) == 2 * (len(_READS) + _CHECK_BYTES) and check.startswith(_READS.hex())


OPEN_KEY: Final = _key(b"")
"""The key of ledgers without a password: every process knows it."""


_OPEN_CHECK: Final = hashlib.sha256(b"check" + OPEN_KEY).hexdigest()
"""Its check. One text for all records: a process may know a hundred thousand of them."""


def key_check(access_key: bytes) -> str:
    """Return what tells a wrong key from the right one without knowing it: 64 hexadecimal
    digits, and two before them if the key guards reads.
    """
    if access_key == OPEN_KEY:
        return _OPEN_CHECK
    check = hashlib.sha256(b"check" + access_key).digest()
    return (_READS + check if guards_reads(access_key) else check).hex()


def is_checked(access_key: bytes, check: str) -> bool:
    """Return whether a key has this check, in a time that does not depend on the check."""
    return hmac.compare_digest(key_check(access_key).encode(), check.encode(errors="replace"))


def _mac_key(password: bytes) -> bytes:
    return hashlib.sha1(b"mac" + password).digest()


def _crc32c(header: bytes, payload: bytes) -> bytes:
    crc: int = _crc32c_extend(_crc32c_value(header), payload)
    return crc.to_bytes(4, "big")


def _crc32(header: bytes, payload: bytes) -> bytes:
    return zlib.crc32(payload, zlib.crc32(header)).to_bytes(8, "big")


def _no_digest(header: bytes, payload: bytes) -> bytes:
    return b""


_KEYLESS: Final[dict[DigestKind, Callable[[bytes, bytes], bytes]]] = {
    DigestKind.CRC32C: _crc32c,
    DigestKind.CRC32: _crc32,
    DigestKind.NONE: _no_digest,
}
"""Digests that all ledgers share: a process may have a hundred thousand sealers."""


def _digest_function(kind: DigestKind, password: bytes) -> Callable[[bytes, bytes], bytes]:
    """Return digest(header, payload) for one ledger."""
    shared = _KEYLESS.get(kind)
    if shared is not None:
        return shared
    key, name = _mac_key(password), "sha1" if kind is DigestKind.HMAC_SHA1 else "sha256"

    def mac(header: bytes, payload: bytes) -> bytes:
        return hmac.digest(key, header + payload, name)

    return mac


def _crc32cs(headers: Sequence[bytes], payloads: Sequence[bytes]) -> bytes:
    crcs = map(_crc32c_extend, map(_crc32c_value, headers), payloads)
    return struct.pack(f">{len(headers)}I", *crcs)


def _digests_function(
    kind: DigestKind, digest: Callable[[bytes, bytes], bytes]
) -> Callable[[Sequence[bytes], Sequence[bytes]], bytes]:
    """Return digests(headers, payloads), one after the other."""
    if kind is DigestKind.CRC32C:
        return _crc32cs

    def any_kind(headers: Sequence[bytes], payloads: Sequence[bytes]) -> bytes:
        return b"".join(map(digest, headers, payloads))

    return any_kind


@lru_cache(maxsize=256)
def _parts(lead: int, digest: int, payload: int) -> struct.Struct:
    return struct.Struct(f">{lead}x{HEADER.size}s{digest}s{payload}s")


class Sealer:
    """Makes and verifies the frames of one ledger.

    The only place that knows the frame's layout together with its digest. Stateless after
    construction, so one instance serves any number of tasks.
    """

    __slots__ = ("_digest", "_digests", "_payload_at", "access_key", "kind", "ledger")

    def __init__(
        self, ledger: LedgerId, kind: DigestKind, password: bytes, *, guards_reads: bool = False
    ) -> None:
        self.ledger = ledger
        self.kind = kind
        self.access_key = access_key(password, guards_reads=guards_reads)
        self._digest = _digest_function(kind, password)
        self._digests = _digests_function(kind, self._digest)
        self._payload_at = HEADER.size + DIGEST_BYTES[kind]

    def seal(self, entry: EntryId, lac: EntryId, length: int, payload: bytes) -> bytes:
        """Return the frame of an entry. Raises as `parts`."""
        return b"".join(self.parts(entry, lac, length, payload))

    def parts(self, entry: EntryId, lac: EntryId, length: int, payload: bytes) -> FrameParts:
        """Return the frame of an entry in parts. The payload is as it is.

        Raises `EntryTooLargeError` when the payload exceeds `ENTRY_BYTES_MAX`.
        """
        if len(payload) > ENTRY_BYTES_MAX:
            raise EntryTooLargeError(len(payload), ENTRY_BYTES_MAX)
        header = HEADER.pack(self.ledger, entry, lac, length)
        return header, self._digest(header, payload), payload

    def unseal(self, entry: EntryId, frame: bytes | memoryview) -> Entry:
        """Verify a frame that is claimed to be `entry` and return its contents.

        Raises `CorruptEntryError` when it is too short, fails its digest, or is another entry.
        """
        if len(frame) < self._payload_at:
            raise CorruptEntryError(self.ledger, entry, f"frame of {len(frame)} bytes is too short")
        view = memoryview(frame)
        # One copy of the payload is made, out of whatever the frame came in.
        header, payload = bytes(view[: HEADER.size]), bytes(view[self._payload_at :])
        found_ledger, found_entry, lac, length = HEADER.unpack(header)
        if found_ledger != self.ledger or found_entry != entry:
            raise CorruptEntryError(
                self.ledger, entry, f"frame is entry {found_entry} of ledger {found_ledger}"
            )
        digest = bytes(view[HEADER.size : self._payload_at])
        if not hmac.compare_digest(digest, self._digest(header, payload)):
            raise CorruptEntryError(self.ledger, entry, f"{self.kind} digest does not match")
        if not NO_ENTRY <= lac < entry or length < len(payload):
            raise CorruptEntryError(
                self.ledger, entry, f"impossible header: LAC {lac}, length {length}"
            )
        return Entry(self.ledger, entry, lac, length, payload)

    def unseal_many(
        self, first: EntryId, frames: bytes | memoryview, stride: int, lead: int
    ) -> list[Entry]:
        """Verify frames of one size, as `unseal` does, at a fraction of its cost per frame.

        Frame n, claimed to be entry `first` + n, is in the `stride` bytes from n × `stride` on,
        after `lead` others. Raises `CorruptEntryError` naming `first` when any frame is not good:
        `unseal` tells which.
        """
        size, count = stride - lead - self._payload_at, len(frames) // stride
        if size < 0 or not count:
            raise CorruptEntryError(self.ledger, first, f"{count} frames of {size} bytes")
        parts = _parts(lead, DIGEST_BYTES[self.kind], size).iter_unpack(frames)
        headers, digests, payloads = zip(*parts, strict=True)
        ledgers, ids, lacs, lengths = zip(*HEADER.iter_unpack(b"".join(headers)), strict=True)
        if (
            ledgers.count(self.ledger) < count
            or ids != tuple(range(first, first + count))
            or min(lacs) < NO_ENTRY
            or not all(map(lt, lacs, ids))
            or min(lengths) < size
            or not hmac.compare_digest(b"".join(digests), self._digests(headers, payloads))
        ):
            raise CorruptEntryError(self.ledger, first, f"it, or one of the {count - 1} after it")
        return list(map(_as_entry, zip(ledgers, ids, lacs, lengths, payloads, strict=True)))

    def seal_lac(self, lac: EntryId) -> bytes:
        """Return the packet of an explicit LAC: ledger, LAC, digest over both."""
        header = LAC_HEADER.pack(self.ledger, lac)
        return header + self._digest(header, b"")

    def unseal_lac(self, packet: bytes) -> EntryId:
        """Verify an explicit LAC packet. Raises `CorruptEntryError` when it cannot be believed."""
        header, digest = packet[: LAC_HEADER.size], packet[LAC_HEADER.size :]
        if len(header) != LAC_HEADER.size:
            raise CorruptEntryError(self.ledger, NO_ENTRY, "LAC packet is too short")
        found_ledger, lac = LAC_HEADER.unpack(header)
        if found_ledger != self.ledger or lac < NO_ENTRY:
            raise CorruptEntryError(
                self.ledger, lac, f"LAC packet names ledger {found_ledger}, LAC {lac}"
            )
        if not hmac.compare_digest(digest, self._digest(header, b"")):
            raise CorruptEntryError(self.ledger, lac, f"{self.kind} digest of LAC does not match")
        return int(lac)


def is_sealed_again(
    ledger: LedgerId, entry: EntryId, held: bytes | memoryview, given: bytes | memoryview
) -> bool:
    """Tell whether a frame may be another one sealed again, in a ledger without a password.

    A recovery changes LAC and digest, and keeps payload and length. The kind of the ledger's
    digests is found by the digest of the frame that is held.

    Args:
        ledger: the ledger of both frames.
        entry: the entry that both are said to be.
        held: the frame that is held.
        given: the frame that is to replace it.

    Returns:
        False when the held frame has a sound digest, and the given one has another payload or
        length or no sound digest of that kind. True otherwise: a held frame that fits no digest
        is damaged or of a ledger without digests, and proves nothing.
    """
    for kind in DigestKind:
        if kind is DigestKind.NONE:
            continue
        sealer = Sealer(ledger, kind, b"")
        try:
            sound = sealer.unseal(entry, held)
        except CorruptEntryError:
            continue
        try:
            other = sealer.unseal(entry, given)
        except CorruptEntryError:
            return False
        return (other.length, other.payload) == (sound.length, sound.payload)
    return True
