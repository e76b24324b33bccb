"""Stretched passwords of one client: each is computed once, beside the loop.

All segments of a log have one salt, so a handle of a log computes once, and so do all handles of
that log in one client. One computation runs at a time: its memory is not multiplied by callers.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias

from quire.aio.computing import compute
from quire.ledger.stretch import KeyStretch

KNOWN_MAX: Final = 1024
"""Secrets that are kept, the last that were used."""

Stretching: TypeAlias = Callable[[bytes, KeyStretch], Awaitable[bytes]]
"""Returns what takes the place of a password."""


class Stretcher:
    """Computes secrets and remembers them. Implements `Stretching`. On one loop."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[bytes, KeyStretch], bytes] = OrderedDict()
        self._turn = asyncio.Lock()

    async def __call__(self, password: bytes, how: KeyStretch) -> bytes:
        """Return what takes the place of a password.

        Args:
            password: the password, not empty.
            how: salt and cost.

        Cancellation: safe.
        """
        key = (password, how)
        if key not in self._known:
            async with self._turn:
                if key not in self._known:
                    self._known[key] = await compute(partial(how.secret, password))
                    if len(self._known) > KNOWN_MAX:
                        self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]
