"""Stretched passwords without their cost: for tests of the protocol, which seal entries by
themselves, and for the quick tests, of which none has a second process that computes as usual.
"""

from __future__ import annotations

import hashlib

from quire.ledger.stretch import SECRET_BYTES, KeyStretch


async def as_it_is(password: bytes, how: KeyStretch) -> bytes:
    """Implements `Stretching` without its cost."""
    return password


def stretch_cheaply() -> None:
    """Let every way of stretching in this process take one round instead of 0.1 s."""

    def secret(self: KeyStretch, password: bytes) -> bytes:
        return hashlib.pbkdf2_hmac("sha256", password, str(self).encode(), 1, SECRET_BYTES)

    KeyStretch.secret = secret  # type: ignore[method-assign]
