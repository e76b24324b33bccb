"""Access to a database, as an adapter of a driver gives it: transactions and statements.

Statements have parameters as `:name`. A block of `begin` is one transaction: it commits at the end
of the block, and leaves nothing when the block raises. A block that ended the transaction itself is
an error. `positions.py` and `outbox.py` are written over these two classes, and `adapters.py`
chooses the adapter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Final, NamedTuple, Protocol

NOTHING: Final[Mapping[str, Any]] = {}


class Returned(NamedTuple):
    """The rows of a query as tuples, and how many rows a statement changed or returned."""

    rows: Sequence[Sequence[Any]]
    changed: int

    @property
    def first(self) -> Sequence[Any] | None:
        """The first row, None without rows."""
        return self.rows[0] if self.rows else None


class Database(Protocol):
    """A database with calls that block."""

    def begin(self, what: str) -> AbstractContextManager[Any]:
        """Return a transaction for `what`. Entering it gives the driver's handle."""

    def dialect(self, handle: Any) -> str:
        """Return the name of the dialect. Raises `UnsupportedError` for an unknown one."""

    def execute(
        self, handle: Any, statement: str, parameters: Mapping[str, Any] = NOTHING
    ) -> Returned:
        """Run a statement in a transaction."""

    def is_transient(self, error: BaseException) -> bool:
        """Return whether another attempt may succeed after this error of the database."""

    def close(self) -> None:
        """Close the connections that this adapter made."""


class AsyncDatabase(Protocol):
    """A database with coroutines."""

    def begin(self, what: str) -> AbstractAsyncContextManager[Any]:
        """Return a transaction for `what`. Entering it gives the driver's handle."""

    def dialect(self, handle: Any) -> str:
        """Return the name of the dialect. Raises `UnsupportedError` for an unknown one."""

    async def execute(
        self, handle: Any, statement: str, parameters: Mapping[str, Any] = NOTHING
    ) -> Returned:
        """Run a statement in a transaction."""

    def is_transient(self, error: BaseException) -> bool:
        """Return whether another attempt may succeed after this error of the database."""

    async def close(self) -> None:
        """Close the connections that this adapter made."""
