"""Bytes in memory as a `File` of port 3, for reading only.

Code that reads files through the port can so get bytes from elsewhere: a copy, or a file
that a running bookie has locked.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence


class BytesFile:
    """A file that cannot be changed."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def size(self) -> int:
        return len(self._data)

    async def read(self, offset: int, size: int) -> bytes:
        return self._data[offset : offset + size]

    def will_read(self, offset: int, size: int) -> None:
        """Nothing to do."""

    async def write(
        self, offset: int, data: Sequence[bytes | memoryview], *, sync: bool = False
    ) -> None:
        raise OSError(errno.EROFS, "these bytes are for reading")

    async def truncate(self, size: int) -> None:
        raise OSError(errno.EROFS, "these bytes are for reading")

    async def sync(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do."""
