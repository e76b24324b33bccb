"""A database with calls that block, as `AsyncDatabase`: each call runs in a thread.

One call at a time is under way, and a cancelled call is waited for: a connection is never used by
two threads at once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from quire.aio.tasks import in_thread
from quire.sql.database import NOTHING, Database, Returned


class ThreadedDatabase:
    """An adapter around a blocking adapter."""

    def __init__(self, blocking: Database) -> None:
        self._blocking = blocking

    @asynccontextmanager
    async def begin(self, what: str) -> AsyncIterator[Any]:
        """Return a transaction."""
        transaction = self._blocking.begin(what)
        begun: list[Any] = []  # also if the call is cancelled while it begins
        try:
            await in_thread(lambda: begun.append(transaction.__enter__()))
            yield begun[0]
        except BaseException as error:
            caught = error
            if begun:
                await in_thread(lambda: transaction.__exit__(type(caught), caught, None))
            raise
        else:
            await in_thread(lambda: transaction.__exit__(None, None, None))

    def dialect(self, handle: Any) -> str:
        """Return the name of the dialect."""
        return self._blocking.dialect(handle)

    async def execute(
        self, handle: Any, statement: str, parameters: Mapping[str, Any] = NOTHING
    ) -> Returned:
        """Run a statement in a transaction."""
        return await in_thread(lambda: self._blocking.execute(handle, statement, parameters))

    def is_transient(self, error: BaseException) -> bool:
        """Return whether another attempt may succeed after this error of the database."""
        return self._blocking.is_transient(error)

    async def close(self) -> None:
        """Close the connections that the blocking adapter made."""
        await in_thread(self._blocking.close)
