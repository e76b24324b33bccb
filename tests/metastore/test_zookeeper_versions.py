"""A conditional change looks first: what comes between the look and the change is a conflict."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from quire.errors import ConflictError, NoSuchNodeError
from quire.metastore.changes import Create, Delete, Put
from quire.metastore.zookeeper import ZooKeeperStore
from tests.support.store_backends import ZooKeeperBackend

DEADLINE_SECONDS = 30.0

Change = Callable[[ZooKeeperStore, int], Awaitable[object]]

CHANGES: dict[str, Change] = {
    "put": lambda store, version: store.put("/a", b"mine", version),
    "delete": lambda store, version: store.delete("/a", version),
    "commit of a put": lambda store, version: store.commit([Put("/a", b"mine", version)]),
    "commit of a deletion": lambda store, version: store.commit(
        [Create("/b", b""), Delete("/a", version)]
    ),
}


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("between", ["put", "delete and create"])
def test_what_changes_between_the_look_and_the_change_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, between: str
) -> None:
    async def main() -> None:
        backend = ZooKeeperBackend(tmp_path)
        store, other = await backend.client(), await backend.client()
        try:
            version = await store.create("/a", b"first")
            look = store._edit_of

            async def look_too_early(path: str, version: int) -> int:
                edit = await look(path, version)
                if between == "put":
                    await other.put("/a", b"newer", version)
                else:
                    await other.delete("/a", version)
                    await other.put("/a", b"newer", await other.create("/a", b""))
                return edit

            monkeypatch.setattr(store, "_edit_of", look_too_early)
            with pytest.raises(ConflictError):
                await CHANGES[how](store, version)
            assert (await other.get("/a")).value == b"newer"
            with pytest.raises(NoSuchNodeError):
                await other.get("/b")
        finally:
            await store.close()
            await other.close()

    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await main()

    asyncio.run(bounded())
