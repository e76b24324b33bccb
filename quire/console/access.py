"""Which requests a console answers: those with a token, at a host of its own. Pure, but for
random keys.

A console reads with the rights of its process, so a program without a token may not read through
it. The holder of a token that names an identity has the rights of that identity, and no more. That
holds on this machine, too: every user of a machine reaches its loopback. The host of a request is
compared on loopback, else a page of another site could make a browser ask here under a name of that
site's own (DNS rebinding).

A browser gets a cookie for its token. It holds a keyed hash and no token, because a cookie of
127.0.0.1 is sent to every port of the machine. The key dies with the process.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Final

from quire.gateway.tokens import Token, caller
from quire.wire.exposure import host_name, is_loopback_name
from quire.wire.identity import Identity

TOKEN_BYTES: Final = 24

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""No script, style or image of another host, and none that is written in a page."""

HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def new_token() -> str:
    """Return a token that cannot be guessed."""
    return secrets.token_urlsafe(TOKEN_BYTES)


class TokenGuard:
    """Compares requests with the tokens of a console."""

    def __init__(self, tokens: Sequence[Token], *, on_loopback: bool, port: int = 0) -> None:
        """`tokens` is not empty. `port` names the cookie: consoles of one machine share cookies."""
        assert tokens, "a console without a token would lend its rights"
        self._tokens = tuple(tokens)
        self._on_loopback = on_loopback
        self._key = secrets.token_bytes(32)
        self.cookie_name: Final = f"quire-console-{port}"

    def _cookie_for(self, token: Token) -> str:
        return hmac.new(self._key, token.secret.encode(), hashlib.sha256).hexdigest()

    def cookie(self, shown: str) -> str | None:
        """Return the cookie for a token; None if the token is wrong."""
        proved = [each for each in self._tokens if each.is_proved_by(shown)]
        return self._cookie_for(proved[0]) if proved else None

    def caller(self, authorization: str, cookie: str) -> Identity | None:
        """Return the identity that `Authorization: Bearer` or a cookie proves; None for none."""
        known = [
            each.identity
            for each in self._tokens
            if hmac.compare_digest(self._cookie_for(each).encode(), cookie.encode(errors="replace"))
        ]
        return caller(self._tokens, authorization) or (known[0] if known else None)

    def knows_host(self, host: str) -> bool:
        """Return whether this console is reached under the name in a header `Host`."""
        return not self._on_loopback or is_loopback_name(host_name(host))
