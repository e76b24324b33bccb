"""The parts of a request over HTTP, as the calls take them.

Not here: bodies with records (bodies.py).
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from quire.errors import InvalidRequestError
from quire.extras import needed_for
from quire.gateway.quotas import client_of
from quire.log.records.position import TEXT_SHOWN, is_number
from quire.units import parse_seconds

with needed_for("quire gateway", "gateway"):
    from starlette.requests import Request

_SAFE: Final = "/!$&'()*+,;=:@"
"""Marks that a path has as they are, beside letters, digits and `-._~` (RFC 3986, 3.3)."""


def path_of(request: Request) -> str:
    """Return the path of a request as a URL has it.

    A server decodes the path, and a name may have any letter: a decoded path in a URL would name
    another log.
    """
    return quote(request.scope["path"], safe=_SAFE)


def payer_of(request: Request) -> str:
    """Return the client that the quotas count a request for."""
    return client_of(request.state.identity, request.client.host if request.client else "")


def name_in(request: Request) -> str:
    """Return the name of the log or stream in the path."""
    name = request.path_params["name"]
    assert isinstance(name, str), "a part of a path"
    return name


def whole(text: str, name: str, least: int, most: int) -> int:
    """Return a whole number of a query. Raises `InvalidRequestError`."""
    if not (is_number(text) and least <= int(text) <= most):
        raise InvalidRequestError(
            f"{name} {text[:TEXT_SHOWN]!r} is not a number from {least} to {most}"
        )
    return int(text)


def seconds_of(text: str) -> float:
    """Return how long a read may wait. Raises `InvalidRequestError`."""
    seconds = parse_seconds(text)
    if not 0 <= seconds < float("inf"):
        raise InvalidRequestError(f"wait {text!r} is not a time to wait: write 30s")
    return seconds
