"""The port to a database: a consumer's place and its effects are one transaction there.

`Target` blocks, and `AsyncTarget` does not. Both promise, in tests/sql/test_contract.py:

  - `load` returns the place that the last committed move left.
  - `transaction(move)` makes the move before the block runs, and commits both or neither. It raises
    `PositionMovedError` if the place is not the expected one, also when another transaction moved
    it and committed in between.
  - A block that raises leaves nothing. A block that ended the transaction is an error.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from quire.sql.places import Move, Place


@runtime_checkable
class Target(Protocol):
    """A database with calls that block."""

    def prepare(self) -> None:
        """Create the table of places if it is missing."""

    def load(self, consumer: str, log: str) -> Place | None:
        """Return a consumer's place.

        Args:
            consumer: the consumer's name.
            log: the log's name.

        Returns:
            The place; None before the first move.
        """

    def transaction(self, move: Move) -> AbstractContextManager[Any]:
        """Return a transaction that has made a move.

        Args:
            move: the move.

        Returns:
            A context manager, which gives the handle for effects when it is entered.
        """

    def is_transient(self, error: BaseException) -> bool:
        """Return whether another attempt may succeed after an error.

        Args:
            error: the error of any call, or of the block.

        Returns:
            False for every error that is not the database's.
        """

    def close(self) -> None:
        """Close the connections that this target made. Given connections stay open."""


@runtime_checkable
class AsyncTarget(Protocol):
    """A database with coroutines."""

    async def prepare(self) -> None:
        """Create the table of places if it is missing.

        Raises:
            Exception: the driver's errors.

        Cancellation: the table may exist afterwards.
        """

    async def load(self, consumer: str, log: str) -> Place | None:
        """Return a consumer's place.

        Args:
            consumer: the consumer's name.
            log: the log's name.

        Returns:
            The place; None before the first move.

        Raises:
            Exception: the driver's errors.

        Cancellation: changes nothing.
        """

    def transaction(self, move: Move) -> AbstractAsyncContextManager[Any]:
        """Return a transaction that has made a move.

        Args:
            move: the move.

        Returns:
            A context manager, which gives the handle for effects when it is entered.
        """

    def is_transient(self, error: BaseException) -> bool:
        """Return whether another attempt may succeed after an error.

        Args:
            error: the error of any call, or of the block.

        Returns:
            False for every error that is not the database's.
        """

    async def close(self) -> None:
        """Close the connections that this target made. Given connections stay open.

        Raises:
            Exception: the driver's errors.

        Cancellation: a connection may stay open.
        """
