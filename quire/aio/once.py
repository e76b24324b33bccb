"""An event that happens once, and costs next to nothing while no caller waits for it.

`asyncio.Event` keeps a queue from the start, of over six hundred bytes.
"""

from __future__ import annotations

import asyncio


class Once:
    """Happens once, and has happened from then on. For one event loop."""

    __slots__ = ("_waiting", "has_happened")

    def __init__(self) -> None:
        self.has_happened = False
        self._waiting: dict[asyncio.Future[None], None] | None = None

    @property
    def is_awaited(self) -> bool:
        """Whether a caller waits for it."""
        return bool(self._waiting)

    def happen(self) -> None:
        """Let all callers go on that wait, and all that come."""
        self.has_happened = True
        waiting, self._waiting = self._waiting, None
        for future in waiting or ():
            if not future.done():
                future.set_result(None)

    async def wait(self) -> None:
        """Return when it has happened.

        Cancellation: gives up waiting only.
        """
        if self.has_happened:
            return
        if self._waiting is None:
            self._waiting = {}
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = None
        try:
            await future
        finally:
            if self._waiting is not None:
                del self._waiting[future]
