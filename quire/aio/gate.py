"""An event that happens once, and costs next to nothing while no caller waits for it.

`asyncio.Event` keeps a queue from the start, of over six hundred bytes.
"""

from __future__ import annotations

import asyncio


class Gate:
    """Closed until it is opened, once and for all. For one event loop."""

    __slots__ = ("_waiting", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self._waiting: list[asyncio.Future[None]] | None = None

    @property
    def is_awaited(self) -> bool:
        """Whether a caller waits for it to open."""
        return bool(self._waiting)

    def open(self) -> None:
        """Let all callers through that wait, and all that come."""
        self.is_open = True
        waiting, self._waiting = self._waiting, None
        for future in waiting or ():
            if not future.done():
                future.set_result(None)

    async def passed(self) -> None:
        """Return when the gate is open.

        Cancellation: gives up waiting only.
        """
        if self.is_open:
            return
        if self._waiting is None:
            self._waiting = []
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            await future
        finally:
            if self._waiting is not None:
                self._waiting.remove(future)
