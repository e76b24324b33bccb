"""Whether the metadata store answers, for callers that need no token.

A question to the store costs more than its caller, perhaps a stranger. So one question answers
all callers of a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from quire.errors import QuireError

LOOK_SECONDS: Final = 1.0
"""An answer is told again for so long."""


class StoreLook:
    """The last question to a store."""

    def __init__(self, ask: Callable[[], Awaitable[object]]) -> None:
        """`ask` asks the store for something. It raises `QuireError` if the store is away."""
        self._ask = ask
        self._turn = asyncio.Lock()
        self._at: float | None = None
        self._trouble: str | None = None

    async def trouble(self) -> str | None:
        """Return why the store does not answer; None: it does."""
        async with self._turn:
            now = asyncio.get_running_loop().time()
            if self._at is None or now - self._at >= LOOK_SECONDS:
                self._trouble = await self._asked()
                self._at = asyncio.get_running_loop().time()
            return self._trouble

    async def _asked(self) -> str | None:
        try:
            await self._ask()
        except QuireError as error:
            return str(error)
        return None
