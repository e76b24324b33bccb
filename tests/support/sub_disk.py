"""A directory of another disk as a disk: several directories of one bookie on one platter."""

from __future__ import annotations

from quire.storage.disk.port import Disk, DiskSpace, File

FILE_BYTES = 1024


class SubDisk:
    """Port 3 below a directory of another disk, which must be there. Every file made takes room
    from it.
    """

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self._root = root
        self.made: list[str] = []

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    async def open(self, path: str, *, create: bool = False) -> File:
        file = await self._disk.open(self._at(path), create=create)
        if create:
            self.made.append(path)
        return file

    async def list(self, directory: str = "") -> list[str]:
        return await self._disk.list(self._at(directory))

    async def make_directory(self, path: str) -> None:
        await self._disk.make_directory(self._at(path))

    async def rename(self, old: str, new: str) -> None:
        await self._disk.rename(self._at(old), self._at(new))

    async def unlink(self, path: str) -> None:
        await self._disk.unlink(self._at(path))

    async def sync_directory(self, directory: str = "") -> None:
        await self._disk.sync_directory(self._at(directory))

    async def space(self, directory: str = "") -> DiskSpace:
        space = await self._disk.space()
        return DiskSpace(space.free_bytes - FILE_BYTES * len(self.made), space.total_bytes)

    async def close(self) -> None:
        """The disk is its owner's to close."""
