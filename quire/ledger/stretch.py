"""How a password is stretched: scrypt (RFC 7914), with a salt and a cost that the record names.

A bookie and a record hold hashes of the secret. A thief of either tries passwords; stretching makes
each try cost memory and time, instead of two SHA sums.

The cost comes from a record, and every reader pays it. So a record cannot ask for more than
`LOG2_COST_MAX` and `LANES_MAX` allow: 128 MiB, and some seconds.

Pure. Reasons: docs/decisions/0055-stretched-passwords.md. Not here: when to stretch (catalog.py).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from typing import Final

from quire.errors import ConfigurationError

SECRET_BYTES: Final = 32
BLOCK: Final = 8
"""scrypt's r: a block of 128 * r bytes. Memory is cost * 128 * r."""

LOG2_COST: Final = 15
"""scrypt's N is 2^15: 32 MiB, and some 0.1 s of a core, for each try."""

LOG2_COST_MIN: Final = 14
LOG2_COST_MAX: Final = 17
LANES: Final = 1
LANES_MAX: Final = 4
SALT_BYTES_MIN: Final = 8
SALT_BYTES_MAX: Final = 64

_TEXT: Final = re.compile(
    r"\$scrypt\$ln=([0-9]{1,2}),r=([0-9]{1,2}),p=([0-9]{1,2})\$([\w+/]+)", re.A
)


@dataclass(frozen=True, slots=True)
class KeyStretch:
    """One way of stretching. Raises `ConfigurationError` for a cost or salt out of bounds."""

    salt: bytes
    log2_cost: int = LOG2_COST
    lanes: int = LANES

    def __post_init__(self) -> None:
        if not LOG2_COST_MIN <= self.log2_cost <= LOG2_COST_MAX:
            raise ConfigurationError(
                f"scrypt with N = 2^{self.log2_cost}: from 2^{LOG2_COST_MIN} to 2^{LOG2_COST_MAX} "
                "is allowed"
            )
        if not 1 <= self.lanes <= LANES_MAX:
            raise ConfigurationError(f"scrypt with p = {self.lanes}: 1 to {LANES_MAX} is allowed")
        if not SALT_BYTES_MIN <= len(self.salt) <= SALT_BYTES_MAX:
            raise ConfigurationError(
                f"a salt of {len(self.salt)} bytes: "
                f"{SALT_BYTES_MIN} to {SALT_BYTES_MAX} are allowed"
            )

    def __str__(self) -> str:
        """Return the text that records hold."""
        salt = base64.b64encode(self.salt).rstrip(b"=").decode()
        return f"$scrypt$ln={self.log2_cost},r={BLOCK},p={self.lanes}${salt}"

    @classmethod
    def parse(cls, text: str) -> KeyStretch:
        """Return the value of a text. Raises `ConfigurationError` for any other text."""
        found = _TEXT.fullmatch(text)
        if found is None or int(found[2]) != BLOCK:
            raise ConfigurationError(f"{text[:80]!r} is not $scrypt$ln=COST,r={BLOCK},p=LANES$SALT")
        try:
            salt = base64.b64decode(found[4] + "=" * (-len(found[4]) % 4), validate=True)
        except binascii.Error as error:
            raise ConfigurationError(f"the salt of {text!r} is not base64") from error
        value = cls(salt, int(found[1]), int(found[3]))
        if str(value) != text:
            raise ConfigurationError(f"{text!r} is not written as {str(value)!r}")
        return value

    def secret(self, password: bytes) -> bytes:
        """Return what takes the place of a password. Takes some 0.1 s, and `LOG2_COST` memory."""
        cost = 1 << self.log2_cost
        return hashlib.scrypt(
            password,
            salt=self.salt,
            n=cost,
            r=BLOCK,
            p=self.lanes,
            maxmem=2 * 128 * BLOCK * cost,
            dklen=SECRET_BYTES,
        )
