"""Keys for encryption at rest: looked up by id, never stored, never printed.

A batch names its key by an id and is opened with that key. To rotate keys, use another id for new
batches while the old ids can still be looked up. The key that encrypts a ledger's batches is
derived from the key, the ledger and a salt (docs/decisions/0013-encrypted-batches.md).
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

from quire.entry import LedgerId
from quire.errors import ConfigurationError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES: Final = 32
KEY_ID_BYTES_MAX: Final = 64
SALT_BYTES: Final = 16

_INFO: Final = b"quire batch"
_DERIVED_MAX: Final = 64
"""Number of ledgers to keep derived keys for: readers go from one ledger to the next."""

LookUp: TypeAlias = Callable[[str], bytes | None]
"""Returns the key of an id, None for an unknown id. Called once per id."""


class Keyring:
    """Keys by id, and the id of the key that encrypts new batches. Thread-safe.

    Args:
        keys: a mapping, or a function for keys that a key service hands out. A key has 32 bytes.
        current: id of the key that encrypts new batches. Without it new batches are plain.

    Raises:
        ConfigurationError: an id or a key is invalid.

    Guarantees:
        Keys are never stored or printed.
    """

    def __init__(self, keys: Mapping[str, bytes] | LookUp, *, current: str | None = None) -> None:
        if not isinstance(keys, Mapping) and not callable(keys):
            raise ConfigurationError(
                "keys must be a mapping of ids to keys, or a function of an id, not "
                f"{type(keys).__name__}"
            )
        self._look_up: LookUp = keys.get if isinstance(keys, Mapping) else keys
        self._found: dict[str, bytes] = {}
        self._derived: dict[tuple[str, LedgerId, bytes], AESGCM] = {}
        for key_id in keys if isinstance(keys, Mapping) else ():
            self.key(key_id)
        self._current: str | None = None
        if current is not None:
            self.rotate(current)

    def __repr__(self) -> str:
        return f"Keyring(current={self._current!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a keyring stays in its process: make one from its source in the other")

    @property
    def current(self) -> str | None:
        """Id of the key for new batches."""
        return self._current

    def rotate(self, key_id: str) -> None:
        """Encrypt with another key from the next batch on.

        Args:
            key_id: the id of the key.

        Raises:
            ConfigurationError: the keyring has no such key.
        """
        if self.key(key_id) is None:
            raise ConfigurationError(f"the keyring has no key {key_id!r}")
        self._current = key_id

    def key(self, key_id: str) -> bytes | None:
        """Return a key.

        Args:
            key_id: the id of the key.

        Returns:
            The key's bytes, or None if the keyring has no such key.

        Raises:
            ConfigurationError: the key is invalid.
        """
        key = self._found.get(key_id)
        if key is not None:
            return key
        if not isinstance(key_id, str) or not 0 < len(key_id.encode()) <= KEY_ID_BYTES_MAX:
            raise ConfigurationError(
                f"key id {key_id!r} is not text of 1 to {KEY_ID_BYTES_MAX} UTF-8 bytes"
            )
        key = self._look_up(key_id)
        if key is None:
            return None
        if not isinstance(key, bytes | bytearray | memoryview):
            raise ConfigurationError(f"key {key_id!r} is not bytes but {type(key).__name__}")
        if len(key) != KEY_BYTES:
            raise ConfigurationError(f"key {key_id!r} has {len(key)} bytes, not {KEY_BYTES}")
        self._found[key_id] = bytes(key)
        return key

    def cipher(self, key_id: str, ledger: LedgerId, salt: bytes) -> AESGCM | None:
        """Return the cipher for a ledger's batches.

        Args:
            key_id: the id of the key.
            ledger: the ledger's id.
            salt: the ledger's random bytes.

        Returns:
            The cipher, or None if the keyring has no such key.
        """
        name = (key_id, ledger, salt)
        cipher = self._derived.get(name)
        if cipher is None:
            key = self.key(key_id)
            if key is None:
                return None
            while len(self._derived) >= _DERIVED_MAX:
                self._derived.pop(next(iter(self._derived)), None)
            cipher = self._derived[name] = derive(key, ledger, salt)
        return cipher


def check_keyring(keyring: Keyring | None) -> Keyring | None:
    """Return a keyring, or None. Raises `ConfigurationError` for any other value."""
    if keyring is not None and not isinstance(keyring, Keyring):
        raise ConfigurationError(
            f"a keyring must be a Keyring, not {type(keyring).__name__}: give Keyring(keys)"
        )
    return keyring


def derive(key: bytes, ledger: LedgerId, salt: bytes) -> AESGCM:
    """Return the cipher of one ledger: AES-256-GCM under HKDF-SHA256 of key, salt and ledger."""
    # Imported here: loading OpenSSL takes longer than most commands, and few logs are encrypted.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    info = _INFO + ledger.to_bytes(8, "big", signed=True)
    return AESGCM(HKDF(SHA256(), KEY_BYTES, salt, info).derive(key))


def read_key_file(path: str) -> Keyring:
    """Return the keyring of a file: a line per key, its id and 64 hexadecimal digits.

    The first key encrypts. Empty lines and lines that begin with # are ignored. Raises
    `ConfigurationError` naming the file and the line.
    """
    keys: dict[str, bytes] = {}
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"key file {path} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key_id, _, digits = line.strip().partition(" ")
        try:
            key = binascii.unhexlify(digits.strip())
        except (binascii.Error, ValueError):
            key = b""
        if len(key) != KEY_BYTES or key_id in keys:
            raise ConfigurationError(
                f"line {number} of key file {path} is not an id of its own, a space and "
                f"{2 * KEY_BYTES} hexadecimal digits"
            )
        keys[key_id] = key
    if not keys:
        raise ConfigurationError(f"key file {path} has no key")
    return Keyring(keys, current=next(iter(keys)))
