"""Clients and readers that are opened by `await`, by `async with`, or, readers, by `async for`.

    client = await quire.connect(store)                 # until `await client.close()`
    async with quire.connect(store) as client:          # until the end of the block

    reader = await client.read_log("orders")            # until `await reader.close()`
    async with client.read_log("orders") as reader:     # until the end of the block
    async for record in client.read_log("orders"):      # until its last step

One call serves all forms, because users of other clients expect each of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Protocol, TypeVar

from quire.errors import InvalidRequestError
from quire.log.reading.reader import LogReader
from quire.log.records.position import Record


class Owned(Protocol):
    """A value that ends with the scope that made it."""

    def _own(self, scope: AbstractAsyncContextManager[object]) -> None:
        """Take over the scope: `close` leaves it."""
        ...


T = TypeVar("T", bound=Owned)


class Opening(AbstractAsyncContextManager[T]):
    """A value that a scope makes: entered by `async with`, or by `await` and then owned."""

    def __init__(self, scope: AbstractAsyncContextManager[T]) -> None:
        self._scope = scope
        self._is_used = False

    def __await__(self) -> Generator[object, None, T]:
        return self._own().__await__()

    async def _own(self) -> T:
        value = await self._enter()
        value._own(self._scope)
        return value

    async def _enter(self) -> T:
        if self._is_used:
            raise InvalidRequestError("this was opened before: make the call again")
        self._is_used = True
        return await self._scope.__aenter__()

    async def __aenter__(self) -> T:
        return await self._enter()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._scope.__aexit__(kind, error, traceback)


class OpeningReader(AbstractAsyncContextManager[LogReader]):
    """A log's reader that is about to be opened. Use it once."""

    def __init__(self, open_reader: Callable[[], Awaitable[LogReader]]) -> None:
        self._open_reader = open_reader
        self._is_used = False
        self._reader: LogReader | None = None

    def __await__(self) -> Generator[object, None, LogReader]:
        return self.open().__await__()

    async def open(self) -> LogReader:
        """Open the reader and return it.

        Returns:
            The reader. Close it.

        Raises:
            InvalidRequestError: it was opened before: call `read_log` again.
            NoSuchLogError, LogReplacedError: as `Client.read_log` says.

        Cancellation: no reader is opened; call `read_log` again.
        """
        if self._is_used:
            raise InvalidRequestError("this reader was opened before: call read_log again")
        self._is_used = True
        return await self._open_reader()

    async def __aenter__(self) -> LogReader:
        self._reader = await self.open()
        return self._reader

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._reader is not None, "the block was entered"
        await self._reader.close()

    async def __aiter__(self) -> AsyncIterator[Record]:
        async with self as reader:
            async for record in reader:
                yield record
