"""Which writes go past the page cache, and what happens where none can."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest

from quire.storage.disk.direct_io import BUFFER_BYTES
from quire.storage.disk.local import LocalDisk
from quire.storage.disk.local_file import LocalFile

BLOCK: Final = 4096
DIRECT: Final = getattr(os, "O_DIRECT", 0)


class Kernel:
    """Watches what is opened and written. Direct writes are ordinary ones here, so that these tests
    are the same on every file system."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._open, self._write, self._close = os.open, os.pwritev, os.close
        self.direct: set[int] = set()
        self.written: list[bool] = []
        """Of each write, whether it was a direct one."""
        self.refusal: int | None = None
        """With what direct writes are refused."""
        self.refusal_to_open: int | None = None
        patch.setattr(os, "open", self.open)
        patch.setattr(os, "pwritev", self.pwritev)
        patch.setattr(os, "close", self.close)

    def open(
        self, path: str | Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int:
        is_direct = bool(flags & DIRECT)
        if is_direct and self.refusal_to_open is not None:
            raise OSError(self.refusal_to_open, os.strerror(self.refusal_to_open))
        descriptor = self._open(path, flags & ~DIRECT, mode, dir_fd=dir_fd)
        if is_direct:
            self.direct.add(descriptor)
        return descriptor

    def close(self, descriptor: int) -> None:
        self.direct.discard(descriptor)
        self._close(descriptor)

    def pwritev(self, descriptor: int, buffers: list[memoryview], offset: int) -> int:
        is_direct = descriptor in self.direct
        self.written.append(is_direct)
        if is_direct:
            assert offset % BLOCK == 0 == sum(map(len, buffers)) % BLOCK
            if self.refusal is not None:
                raise OSError(self.refusal, os.strerror(self.refusal))
        return self._write(descriptor, buffers, offset)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(monkeypatch)


def over(tmp_path: Path, check: Callable[[LocalFile], Awaitable[None]]) -> None:
    async def main() -> None:
        disk = LocalDisk(tmp_path)
        file = await disk.open("a", create=True)
        await file.write(0, [bytes(4 * BLOCK)], sync=True)
        try:
            await check(file)
        finally:
            await file.close()
            await disk.close()

    asyncio.run(main())


def test_synced_whole_blocks_of_a_file_that_has_them_are_written_directly(
    tmp_path: Path, kernel: Kernel
) -> None:
    async def check(file: LocalFile) -> None:
        for turn in range(3):
            await file.write(BLOCK, [b"%d" % turn, bytes(2 * BLOCK - 1)], sync=True)
        assert kernel.written == [False, True, True, True]
        assert len(kernel.direct) == 1
        assert await file.read(BLOCK, 2) == b"2\0"

    over(tmp_path, check)
    assert not kernel.direct, "a descriptor was left open"


@pytest.mark.parametrize(
    ("offset", "size", "sync"),
    [
        (0, BLOCK, False),
        (1, BLOCK, True),
        (0, BLOCK + 1, True),
        (4 * BLOCK, BLOCK, True),
        (3 * BLOCK, 2 * BLOCK, True),
        (0, BUFFER_BYTES + BLOCK, True),
    ],
)
def test_others_are_not(tmp_path: Path, kernel: Kernel, offset: int, size: int, sync: bool) -> None:
    async def check(file: LocalFile) -> None:
        if size > BUFFER_BYTES:
            await file.truncate(2 * BUFFER_BYTES)
        kernel.written.clear()
        await file.write(offset, [b"x" * size], sync=sync)
        assert not any(kernel.written)
        assert await file.read(offset, size) == b"x" * size

    over(tmp_path, check)


@pytest.mark.parametrize("at", ["open", "write"])
def test_where_there_are_none_all_are_ordinary(tmp_path: Path, kernel: Kernel, at: str) -> None:
    async def check(file: LocalFile) -> None:
        kernel.refusal_to_open = errno.EINVAL if at == "open" else None
        kernel.refusal = errno.EINVAL
        kernel.written.clear()
        for turn in range(3):
            await file.write(0, [bytes([turn]) * BLOCK], sync=True)
            assert await file.read(0, 2) == bytes([turn]) * 2
        assert kernel.written == [False] * 3 if at == "open" else [True, False, False, False]

    over(tmp_path, check)


def test_without_a_descriptor_for_them_they_are_ordinary_until_there_is_one(
    tmp_path: Path, kernel: Kernel
) -> None:
    async def check(file: LocalFile) -> None:
        kernel.written.clear()
        for kernel.refusal_to_open in (errno.EMFILE, errno.ENFILE, None):
            await file.write(0, [bytes(BLOCK)], sync=True)
        assert kernel.written == [False, False, True]

    over(tmp_path, check)


def test_a_disk_that_fails_is_not_asked_again(tmp_path: Path, kernel: Kernel) -> None:
    """Nothing is known of a file after a failed write: no second try may hide it."""

    async def check(file: LocalFile) -> None:
        kernel.refusal = errno.EIO
        kernel.written.clear()
        with pytest.raises(OSError, match=r"Input/output error.*/a'") as caught:
            await file.write(0, [bytes(BLOCK)], sync=True)
        assert caught.value.errno == errno.EIO
        assert kernel.written == [True]

    over(tmp_path, check)


def test_direct_writes_are_synced(
    tmp_path: Path, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(file: LocalFile) -> None:
        await file.write(0, [b"x" * BLOCK], sync=True)
        synced: list[int] = []
        monkeypatch.setattr(os, "fdatasync", lambda _: synced.append(len(kernel.written)))
        await file.write(0, [b"y" * BLOCK], sync=True)
        assert synced == [len(kernel.written)], "not after the write"

    over(tmp_path, check)


def test_what_is_under_way_side_by_side_keeps_its_own_bytes(tmp_path: Path, kernel: Kernel) -> None:
    async def check(file: LocalFile) -> None:
        writes = [file.write(at * BLOCK, [bytes([at]) * BLOCK], sync=True) for at in range(4)]
        writes[1].cancel()
        await asyncio.gather(*writes, return_exceptions=True)
        await file.sync()
        data = await file.read(0, 4 * BLOCK)
        assert [data[at * BLOCK] for at in (0, 2, 3)] == [0, 2, 3]
        assert all(kernel.written[1:])

    over(tmp_path, check)
