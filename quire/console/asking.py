"""Asking gateways for their status.

The address of a gateway comes from the metadata store, so a console asks with care: over TLS or on
this machine only, because figures could be read and replaced on the way. It follows no redirect,
uses no proxy, and reads a bounded answer within a bounded time. It never sends what its own callers
have shown, nor its certificate for bookies: only the token that its operator gave it for gateways.
"""

from __future__ import annotations

import logging
from ipaddress import ip_address
from typing import Final

from quire.aio.timing import time_limit
from quire.errors import InvalidRequestError
from quire.extras import needed_for
from quire.gateway.status import GatewayStatus, decode_status

with needed_for("quire console", "console"):
    import httpx

ANSWER_SECONDS: Final = 3.0
"""A gateway that takes longer to answer counts as silent."""

ANSWER_BYTES_MAX: Final = 2 * 1024 * 1024

PATH: Final = "/v1/status"

logging.getLogger("httpx").setLevel(logging.WARNING)  # else each request is a line


class GatewaySilentError(Exception):
    """A gateway gave no status. The text says why, without the address."""


class GatewayAsker:
    """Asks gateways. Use it as an asynchronous context."""

    def __init__(self, token: str = "", transport: httpx.AsyncBaseTransport | None = None) -> None:
        """`token` is shown to gateways. `transport` carries requests, by default over sockets."""
        headers = {"Accept-Encoding": "identity"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._has_token = bool(token)
        self._http = httpx.AsyncClient(
            headers=headers,
            timeout=ANSWER_SECONDS,
            trust_env=False,
            follow_redirects=False,
            transport=transport,
        )

    async def close(self) -> None:
        """End connections."""
        await self._http.aclose()

    async def ask(self, url: str) -> GatewayStatus:
        """Return the status of the gateway at a URL.

        Raises:
            GatewaySilentError: the address may not be asked, or answered nothing of use in time.
        """
        try:
            check_address(url)
            async with time_limit(ANSWER_SECONDS):
                return decode_status(await self._body(url))
        except InvalidRequestError as error:
            raise GatewaySilentError(str(error)) from None
        except TimeoutError:
            raise GatewaySilentError(f"no answer within {ANSWER_SECONDS:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, ValueError) as error:
            why = str(error) or type(error).__name__
            raise GatewaySilentError(f"no answer: {why[:200]}") from None

    async def _body(self, url: str) -> bytes:
        async with self._http.stream("GET", url.rstrip("/") + PATH) as answer:
            self._check_status(answer.status_code)
            parts, size = [], 0
            async for part in answer.aiter_raw():
                size += len(part)
                if size > ANSWER_BYTES_MAX:
                    raise GatewaySilentError(f"its answer has more than {ANSWER_BYTES_MAX} bytes")
                parts.append(part)
        return b"".join(parts)

    def _check_status(self, status: int) -> None:
        if status == 200:
            return
        if status in (401, 403):
            given = "the token of --gateway-token-file may not observe the cluster there"
            raise GatewaySilentError(
                given if self._has_token else "it asks for a token: pass --gateway-token-file"
            )
        older = ": it is older than this console" if status == 404 else ""
        raise GatewaySilentError(f"it answered with status {status}{older}")


def check_address(url: str) -> None:
    """Return for an address that a console may ask. Raises `GatewaySilentError`."""
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise GatewaySilentError(f"{url[:100]!r} is not an address: {error}") from None
    is_odd = parts.userinfo or parts.query or parts.fragment or not parts.host
    if is_odd or not 0 < (parts.port or 1) < 65_536:
        raise GatewaySilentError(f"{url[:100]!r} is not the address of a gateway")
    if parts.scheme == "https" or (parts.scheme == "http" and _is_here(parts.host)):
        return
    raise GatewaySilentError(
        "it is not asked: its address is on the network and without TLS. Advertise https://, or "
        "look at its /metrics"
    )


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
