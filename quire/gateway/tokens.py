"""The tokens of a gateway's callers, and the identities that they prove. Pure.

    # one token a line; the identity of its holder may follow
    3f1c…9e quire://client/orders
    77ab…01

A token without an identity proves that its holder may call, and is anonymous to the table of
rights. Tokens are compared by their hashes, all of them, in a time that tells nothing about them.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from quire.errors import ConfigurationError, InvalidRequestError
from quire.rights.table import identity_named
from quire.wire.identity import ANONYMOUS, Identity


@dataclass(frozen=True, slots=True)
class Token:
    """One token, and its holder."""

    secret: str = field(repr=False)
    identity: Identity = ANONYMOUS

    def is_proved_by(self, shown: str) -> bool:
        """Return whether a caller has shown this token."""
        mine, other = (sha256(each.encode(errors="replace")) for each in (self.secret, shown))
        return hmac.compare_digest(mine.digest(), other.digest())


def parse_tokens(name: str, text: str) -> tuple[Token, ...]:
    """Return the tokens of a file's text.

    Raises `ConfigurationError`, which names the file and shows no token, for a text without tokens
    and for a line that has more than a token and an identity.
    """
    lines = enumerate(text.splitlines(), 1)
    found = [
        _parse(name, number, line)
        for number, line in lines
        if line.strip() and not line.startswith("#")
    ]
    if not found:
        raise ConfigurationError(f"{name} has no token: write one a line")
    return tuple(found)


def _parse(name: str, number: int, line: str) -> Token:
    secret, *others = line.split()
    try:
        if len(others) > 1:
            raise InvalidRequestError("more than a token and an identity")
        return Token(secret, *map(identity_named, others))
    except InvalidRequestError as error:
        raise ConfigurationError(f"{name}, line {number}: {error}") from None


def caller(tokens: Sequence[Token], authorization: str) -> Identity | None:
    """Return the identity that a header `Authorization` proves, None if it proves none.

    Without tokens each caller is anonymous.
    """
    if not tokens:
        return ANONYMOUS
    scheme, _, shown = authorization.partition(" ")
    proved = [each.identity for each in tokens if each.is_proved_by(shown)]
    return proved[0] if proved and scheme.lower() == "bearer" else None
