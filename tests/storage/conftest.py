"""What several tests of the storage engine look at."""

from __future__ import annotations

import pytest

from tests.sim.disk import SimFile


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all reads of entry logs."""
    sizes: list[int] = []
    read = SimFile.read

    async def counted(self: SimFile, offset: int, size: int) -> bytes:
        if self._path.startswith("entries"):
            sizes.append(size)
        return await read(self, offset, size)

    monkeypatch.setattr(SimFile, "read", counted)
    return sizes
