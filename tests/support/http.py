"""A page over HTTP, as a probe or a browser asks for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

ANSWER_SECONDS = 60.0
"""A machine that is busy is no program that is down."""


class Answer(NamedTuple):
    """An answer, and how long it took."""

    status: int
    body: bytes
    headers: Mapping[str, str]
    seconds: float

    @property
    def text(self) -> str:
        return self.body.decode()


def _fetch(url: str, headers: Mapping[str, str], method: str) -> Answer:
    began = time.monotonic()
    try:
        with urlopen(
            Request(url, headers=dict(headers), method=method), timeout=ANSWER_SECONDS
        ) as got:
            status, body, told = got.status, got.read(), got.headers
    except HTTPError as error:
        status, body, told = error.code, error.read(), error.headers
    return Answer(
        status, body, {key.lower(): text for key, text in told.items()}, time.monotonic() - began
    )


async def fetch(url: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> Answer:
    """Ask for a page in a thread; redirections are followed."""
    return await asyncio.to_thread(_fetch, url, headers or {}, method)
