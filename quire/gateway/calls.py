"""A call over HTTP, as the tables of calls have it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

Handler: TypeAlias = Callable[[Any, Request], Awaitable[Response]]
"""Called with the gateway, whose module imports this one."""


@dataclass(frozen=True, slots=True)
class HttpCall:
    """One call of the table."""

    method: str
    path: str
    handler: Handler
    summary: str
    parameters: Mapping[str, str]
    """Of the query, by name."""
    is_open: bool = False
    """Answered without a token."""
