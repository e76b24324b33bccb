"""Reading a file around sectors that its disk cannot read.

One bad sector of a large file costs that sector, and not the rest, which may be the only copy of an
entry. A disk that fails everywhere takes its time over every piece: after so many reads in vain
the rest of the file counts as lost.
"""

from __future__ import annotations

from typing import Final

from quire.storage.disk.blocks import BLOCK_BYTES, align
from quire.storage.disk.port import File, is_unreadable

IN_VAIN_MAX: Final = 256
"""Finding one bad block of a segment of 64 MiB takes 15 reads in vain."""


class Remains:
    """The readable bytes of a file."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._in_vain = 0

    @property
    def is_all(self) -> bool:
        """Whether everything could be read so far."""
        return not self._in_vain

    async def read(self, offset: int, size: int) -> bytes:
        """Return bytes as a file does, with zeros for blocks that cannot be read. Raises OSError
        for other faults.
        """
        if self._in_vain < IN_VAIN_MAX:
            try:
                return await self._file.read(offset, size)
            except OSError as error:
                if not is_unreadable(error):
                    raise
                self._in_vain += 1
        if size <= BLOCK_BYTES or self._in_vain == IN_VAIN_MAX:
            return bytes(size)
        half = align(size // 2)
        return await self.read(offset, half) + await self.read(offset + half, size - half)
