"""What cannot be read of a file costs no more than the blocks it is in."""

from __future__ import annotations

import asyncio
import errno
import random
from typing import Final

import pytest

from quire.storage.disk.blocks import BLOCK_BYTES
from quire.storage.disk.partial_read import IN_VAIN_MAX, Remains
from tests.sim.disk import SimDisk, SimFile

BLOCKS: Final = 64


class Bad(SimFile):
    """A file of a disk with bad blocks."""

    bad: frozenset[int] = frozenset()
    code = errno.EIO
    reads = 0

    async def read(self, offset: int, size: int) -> bytes:
        self.reads += 1
        if self.bad & set(range(offset // BLOCK_BYTES, -(-(offset + size) // BLOCK_BYTES))):
            raise OSError(self.code, "for the test")
        return await super().read(offset, size)


def content() -> bytes:
    return random.Random(1).randbytes(BLOCKS * BLOCK_BYTES - 100)


async def opened(bad: set[int]) -> Bad:
    file = await SimDisk(random.Random(1)).mount().open("a", create=True)
    await file.write(0, [content()])
    file.__class__ = Bad
    assert isinstance(file, Bad)
    file.bad = frozenset(bad)
    return file


@pytest.mark.parametrize("bad", [set[int](), {0}, {17}, {BLOCKS - 1}, {3, 4, 40}])
def test_all_other_blocks_are_read(bad: set[int]) -> None:
    async def main() -> None:
        file = await opened(bad)
        remains = Remains(file)
        data = await remains.read(0, file.size)
        assert len(data) == file.size
        for block in range(BLOCKS):
            at = slice(block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES)
            expected = bytes(len(content()[at])) if block in bad else content()[at]
            assert data[at] == expected, block
        assert remains.is_all == (not bad)

    asyncio.run(main())


def test_a_disk_that_fails_everywhere_is_given_up() -> None:
    async def main() -> None:
        file = await opened(set(range(10_000)))
        size = 10_000 * BLOCK_BYTES
        assert await Remains(file).read(0, size) == bytes(size)
        assert file.reads == IN_VAIN_MAX

    asyncio.run(main())


def test_an_error_that_says_nothing_about_the_bytes_is_raised() -> None:
    async def main() -> None:
        file = await opened({1})
        file.code = errno.EMFILE
        with pytest.raises(OSError, match="for the test"):
            await Remains(file).read(0, file.size)

    asyncio.run(main())
