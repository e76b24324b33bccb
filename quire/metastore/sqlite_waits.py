"""The waits for changes of a metadata file: one task serves them all.

A client waits for a change of each ledger it writes and of each log it tails, thousands in all. So
one task looks for all of them, and at most once per change: changes that are made while it looks
are seen by one more look. Changes of this process are noticed at once (`changed`), changes of
others by a poll, which runs only while a caller waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias

from quire.aio.timing import time_limit

POLL_SECONDS: Final = 0.04
"""Pause between looks at the change counter: at about 0.1 ms each, a four-hundredth of a core."""


class Mark(NamedTuple):
    """How many changes there were: committed by others, as SQLite counts, and made here."""

    others: int
    own: int


class Seen(NamedTuple):
    """A caller's view of a path: a record's version or None; or the names below it."""

    path: str
    version: int | None = None
    names: list[str] | None = None


Look: TypeAlias = Callable[[Mark | None, Sequence[Seen]], Awaitable[tuple[Mark, list[bool]]]]
"""`SqliteFile.look`, in its thread."""


class Waits:
    """See the module."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._waiting: dict[asyncio.Future[None], Seen] = {}
        self._changed = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None

    def changed(self) -> None:
        """Have a look soon: this process may have changed something."""
        self._changed.set()

    async def until_changed(self, seen: Seen) -> None:
        """Return when a path shows something else than was seen. Raises the errors of a look.

        It counts from before its first look, so no change falls between that look and the next.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[done] = seen
        if self._looking is None:
            self._looking = asyncio.create_task(self._keep_looking(), name="sqlite changes")
        try:
            _, (is_changed,) = await self._look(None, [seen])
            if not is_changed:
                await done
        finally:
            del self._waiting[done]
            if done.done() and not done.cancelled():
                done.exception()  # looked at: the first look may have raised the same
            if not self._waiting:
                await self._stop()

    async def _keep_looking(self) -> None:
        mark: Mark | None = None
        while True:
            self._changed.clear()
            before, waiting = mark, list[tuple[asyncio.Future[None], Seen]]()
            have_changed = list[bool]()
            try:
                now, _ = await self._look(before, ())
                if now != before:
                    # Only now: most looks find nothing, and there may be ten thousand waits.
                    waiting = list(self._waiting.items())
                    mark, have_changed = await self._look(before, [seen for _, seen in waiting])
            except Exception as error:
                # Any error ends all waits: no caller may wait for a look that never comes.
                mark = None
                self._tell(error)
            else:
                for (done, _), is_changed in zip(waiting, have_changed, strict=True):
                    if is_changed and not done.done():
                        done.set_result(None)
            with suppress(TimeoutError):
                async with time_limit(POLL_SECONDS):
                    await self._changed.wait()

    def _tell(self, error: Exception) -> None:
        for done in self._waiting:
            if not done.done():
                done.set_exception(error)

    async def close(self, error: Exception) -> None:
        """Have every waiting caller raise an error."""
        self._tell(error)
        await self._stop()

    async def _stop(self) -> None:
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
