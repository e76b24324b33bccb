"""Requests that a browser sends for a page of another site: they are refused.

A browser sends some requests without asking the server first, among them a POST of text, and names
the page's origin in each but plain reads. So a request that changes something is compared
with the origins that are allowed. A gateway without tokens on loopback compares the host, too: a
page could make a browser ask here under a name of the page's own site (DNS rebinding), and would
have the gateway's own origin then.

Other clients send no `Origin`, and old ones no `Host`: their requests pass.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from quire.extras import needed_for
from quire.gateway.origins import ANY_ORIGIN
from quire.wire.exposure import host_name, is_loopback_name

with needed_for("quire gateway", "gateway"):
    from starlette.datastructures import Headers
    from starlette.responses import JSONResponse, Response
    from starlette.types import ASGIApp, Receive, Scope, Send

READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""


class BrowserGuard:
    """An application that hands permitted requests to another."""

    def __init__(
        self, inner: ASGIApp, *, origins: Collection[str], address: str, is_open: bool
    ) -> None:
        """`is_open` says that the gateway listens on loopback without tokens. Its clients reach it
        under a name of loopback then, or the host of its URL, `address`.
        """
        self._inner = inner
        self._origins = frozenset(origins)
        self._name = urlsplit(address).hostname or ""
        self._is_open = is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self._inner)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        if self._is_open and host and not self._knows(host_name(host)):
            return _refused(
                *(421, "wrong_host"),
                "this gateway is reached as 127.0.0.1, [::1], localhost, or the host of its "
                f"--advertise, and not as {host!r}: pages of that site could use it",
            )
        origin = headers.get("origin")
        if origin is None or scope["method"] in READS or not self._is_foreign(origin, host):
            return None
        return _refused(
            *(403, "forbidden"),
            f"a page of {origin!r} may not change logs: name it with --allow-origin",
        )

    def _knows(self, name: str) -> bool:
        return name == self._name or is_loopback_name(name)

    def _is_foreign(self, origin: str, host: str) -> bool:
        if ANY_ORIGIN in self._origins or origin in self._origins:
            return False
        # A proxy with TLS may stand before this gateway: its pages are of this host, too.
        return origin.lower() not in (f"http://{host}", f"https://{host}")


def _refused(status: int, code: str, message: str) -> Response:
    return JSONResponse({"error": code, "message": message}, status)
