"""What handles have in common: as async context managers they close at the end of the block."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Self

from quire.errors import QuireError


class Handle:
    """A base for whatever has an async `close`."""

    __slots__ = ()

    @property
    def _title(self) -> str:
        """The handle's name in messages."""
        return type(self).__name__

    @property
    def has_ended(self) -> bool:
        """Whether there is nothing left to close in order."""
        return False

    @property
    def _untold(self) -> str | None:
        """The error that ended the handle, if no call has raised it yet."""
        return None

    def abandon(self) -> None:
        """Stop at once, as a crash would; a handle that only reads has nothing to stop."""

    async def close(self) -> None:
        """Release the handle's resources."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close; an error of the block is not replaced by one of closing."""
        with suppress(*(() if error is None else (QuireError,))):
            await self.close()
