"""Encrypted batches: only the owner of a key can read the body of such a batch.

Version 3 of a batch wraps one of version 1 or 2 (docs/formats.md, "Batch"):

    | header of the batch, version 3 | inner version u8 | key id size u8 | key id |
    | salt 16 | last txid i64 | body, as the codec packs it, encrypted | tag 16 |

The fields before the body stay readable without a key. A process without the key can find
positions, offsets, times and txids, recover ledgers, and trim and rebuild logs. The
fields cannot be changed unnoticed: they are associated data, together with the ledger and the
entry. So a batch opens only at the place, and with the bytes, that its writer gave it.

The nonce is the entry id: a ledger has one writer, which writes each entry once, and every ledger
has a key of its own (docs/decisions/0013-encrypted-batches.md).

Pure but for the keyring's look-up.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from quire.entry import EntryId, LedgerId
from quire.errors import CorruptEntryError, DecryptionError, MissingKeyError, UnsupportedError
from quire.log.records.batch import (
    COLUMNS_VERSION,
    ENCRYPTED_VERSION,
    HEADER,
    MAGIC,
    VERSION,
    decode_batch,
)
from quire.log.records.keyring import KEY_ID_BYTES_MAX, SALT_BYTES, Keyring, check_keyring
from quire.log.records.position import Position
from quire.log.segment_store.port import SegmentFacts

NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16

_BEGIN: Final = struct.Struct(">BB")
_END: Final = struct.Struct(f">{SALT_BYTES}sq")
_PLACE: Final = struct.Struct(">qq")
_AT_VERSION: Final = len(MAGIC)

ENCRYPTION_BYTES: Final = _BEGIN.size + KEY_ID_BYTES_MAX + _END.size + TAG_BYTES
"""The most bytes that encryption adds to a batch."""


@dataclass(frozen=True, slots=True)
class _Envelope:
    """What stands between the header of an encrypted batch and its body."""

    inner: int
    key_id: str
    salt: bytes
    last_txid: int
    size: int
    """Bytes of the readable part, header included."""


class Encryption:
    """Encrypts the batches of one ledger. Its writer makes one, and gives every entry once."""

    __slots__ = ("_keyring", "_ledger", "_next", "_salt")

    def __init__(self, keyring: Keyring, ledger: LedgerId, salt: bytes) -> None:
        self._keyring = keyring
        self._ledger = ledger
        self._salt = salt
        self._next = 0

    @classmethod
    def of(cls, keyring: Keyring | None, facts: SegmentFacts) -> Encryption | None:
        """Return the encryption for a segment's sink; None without a keyring.

        Raises `UnsupportedError` for a segment whose store keeps no salt: two segments could be
        encrypted alike.
        """
        if keyring is None:
            return None
        if not facts.salt:
            raise UnsupportedError(f"the store of segment {facts.ledger}", "encryption (no salt)")
        return cls(keyring, facts.ledger, facts.salt)

    def seal(self, payload: bytes, entry: EntryId, last_txid: int) -> bytes:
        """Return a batch as it is stored at an entry: encrypted, unless no key is current."""
        key_id = self._keyring.current
        if key_id is None:
            return payload
        assert self._next <= entry < 2**63, f"entry {entry} of {self._ledger} was encrypted before"
        self._next = entry + 1
        cipher = self._keyring.cipher(key_id, self._ledger, self._salt)
        assert cipher is not None, "a current key is known"
        name = key_id.encode()
        head = bytearray(payload[: HEADER.size])
        inner, head[_AT_VERSION] = head[_AT_VERSION], ENCRYPTED_VERSION
        head += _BEGIN.pack(inner, len(name)) + name + _END.pack(self._salt, last_txid)
        bound = _PLACE.pack(self._ledger, entry) + head
        return bytes(head) + cipher.encrypt(_nonce(entry), payload[HEADER.size :], bound)


class Decryption:
    """Opens the batches of one log for a reader."""

    __slots__ = ("_keyring", "log")

    def __init__(self, log: str, keyring: Keyring | None) -> None:
        self.log = log
        self._keyring = check_keyring(keyring)

    def open(self, payload: bytes, segment: int, ledger: LedgerId, entry: EntryId) -> bytes:
        """Return the batch of an entry, decrypted. Returns a plain batch unchanged.

        Raises `DecryptionError`, and `CorruptEntryError` when the entry is not a batch.
        """
        if not is_encrypted(payload):
            return payload
        envelope = _envelope(payload, ledger, entry)

        def refuse(kind: type[DecryptionError], reason: str) -> DecryptionError:
            at = str(Position(segment, entry, 0))
            return kind(self.log, at, envelope.key_id, reason)

        if self._keyring is None:
            raise refuse(MissingKeyError, "no keyring was given")
        cipher = self._keyring.cipher(envelope.key_id, ledger, envelope.salt)
        if cipher is None:
            raise refuse(MissingKeyError, "the keyring has no such key")
        from cryptography.exceptions import InvalidTag  # with the cipher it is loaded already

        head = payload[: envelope.size]
        bound = _PLACE.pack(ledger, entry) + head
        try:
            body = cipher.decrypt(_nonce(entry), payload[envelope.size :], bound)
        except InvalidTag:
            reason = "it is another key, or the batch was changed or moved"
            raise refuse(DecryptionError, reason) from None
        plain = bytearray(head[: HEADER.size])
        plain[_AT_VERSION] = envelope.inner
        return bytes(plain) + body


def is_encrypted(payload: bytes) -> bool:
    """Whether a batch is encrypted."""
    return payload[_AT_VERSION : _AT_VERSION + 1] == bytes([ENCRYPTED_VERSION])


def key_id_of(payload: bytes, ledger: LedgerId, entry: EntryId) -> str | None:
    """Return which key a batch is encrypted with, None for a plain one."""
    return _envelope(payload, ledger, entry).key_id if is_encrypted(payload) else None


def last_txid_of(payload: bytes, ledger: LedgerId, entry: EntryId) -> int:
    """Return the id of a batch's last record, without a key. Raises `CorruptEntryError`."""
    if is_encrypted(payload):
        return _envelope(payload, ledger, entry).last_txid
    return decode_batch(payload, ledger, entry).last_txid


def _nonce(entry: EntryId) -> bytes:
    return entry.to_bytes(NONCE_BYTES, "big")


def _envelope(payload: bytes, ledger: LedgerId, entry: EntryId) -> _Envelope:
    at = HEADER.size
    try:
        inner, size = _BEGIN.unpack_from(payload, at)
        at += _BEGIN.size
        key_id = payload[at : at + size].decode()
        salt, last_txid = _END.unpack_from(payload, at + size)
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptEntryError(ledger, entry, f"not an encrypted batch: {error}") from error
    if inner not in (VERSION, COLUMNS_VERSION) or not key_id:
        raise CorruptEntryError(ledger, entry, f"encrypted batch of version {inner}, {key_id!r}")
    return _Envelope(inner, key_id, salt, last_txid, at + size + _END.size)
