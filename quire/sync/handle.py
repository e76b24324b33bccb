"""The common part of blocking handles: as context managers they close at the end of the block."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Self

from quire.errors import QuireError


class SyncHandle:
    """A base for classes with a blocking `close`: the twin of `quire.aio.handle.Handle`."""

    def close(self) -> None:
        """Release the handle's resources."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close; an error of the block is not replaced by one of closing."""
        with suppress(*(() if error is None else (QuireError,))):
            self.close()
