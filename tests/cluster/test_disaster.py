"""The drill of docs/operations.md: the metadata store of a cluster is lost, and put back.

Three bookies, fifty logs, on SQLite and on ZooKeeper. After the backup the cluster goes on: what
was written then is lost with the store. What must not happen is that anything is served on the
word of the old copy, or that an id comes to mean two ledgers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import quire
from quire.cluster import LocalCluster
from quire.errors import BookieUnavailableError
from quire.metastore import open_store
from quire.metastore.store import MetadataStore
from tests.support.command import quire as command
from tests.support.seeds import first_of
from tests.support.store_backends import shared_zookeeper

LOGS = [f"log {number}" for number in range(50)]
LATER = [f"later {number}" for number in range(5)]
WAIT_SECONDS = 150.0


async def append(store: str, names: list[str], payload: bytes) -> None:
    async with quire.connect(store) as client:
        for name in names:
            log = await client.open_log(name)
            await log.append(payload + name.encode())
            await log.close()


async def read(store: str, names: list[str]) -> dict[str, list[bytes]]:
    async with quire.connect(store) as client:
        return {
            name: [record.payload async for record in await client.read_log(name)] for name in names
        }


async def wipe(store: MetadataStore, path: str) -> None:
    for name in await store.children(path):
        await wipe(store, f"{path}/{name}")
    if path != "/quire":
        await store.delete(path)


async def lose(uri: str) -> None:
    """The disaster: the store is there, and empty."""
    scheme, _, rest = uri.partition("://")
    if scheme == "sqlite":
        for file in Path(rest).parent.glob(Path(rest).name + "*"):
            file.unlink()
        return
    store = await open_store(uri)
    try:
        await wipe(store, "/quire")
        await store.delete("/quire")
    finally:
        await store.close()


def on_sqlite(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/store/metadata.db"


def on_zookeeper(tmp_path: Path) -> str:
    return f"zk://{shared_zookeeper().address}/{tmp_path.name}"


@pytest.mark.parametrize("place", first_of(1, [on_zookeeper, on_sqlite]))
def test_a_lost_store_is_put_back(tmp_path: Path, place: Callable[[Path], str]) -> None:
    (tmp_path / "store").mkdir()
    store, backup = place(tmp_path), tmp_path / "backup"

    async def run(*arguments: str) -> str:
        done = await asyncio.to_thread(command, *arguments, store=store)
        assert done.code == 0, done.err
        return done.out

    async def main() -> None:
        data = tmp_path / "data"
        async with LocalCluster(data, 3, store=store):
            await append(store, LOGS, b"before ")
            await run("metadata", "backup", str(backup))
            await append(store, LATER, b"after ")
            await append(store, LOGS[:5], b"after ")
        await lose(store)

        await run("metadata", "restore", str(backup))
        with pytest.raises(BookieUnavailableError, match="quire metadata adopt"):
            await LocalCluster(data, 3, store=store).start()
        await run("metadata", "adopt")

        async with LocalCluster(data, 3, store=store):
            records = await read(store, LOGS)
            assert records == {name: [b"before " + name.encode()] for name in LOGS}
            await append(store, LOGS + LATER, b"anew ")
            records = await read(store, LOGS + LATER)
            anew = {name: b"anew " + name.encode() for name in LOGS + LATER}
            assert records == {
                name: [b"before " + name.encode(), last] if name in LOGS else [last]
                for name, last in anew.items()
            }
            checked = await run("metadata", "check", "--json")
            found = [json.loads(line) for line in checked.splitlines()]
            assert all(each["recordless"] for each in found), "nothing lost, short, or beyond"
            made_since = len(LATER) + len(LOGS[:5])
            assert len(found) == made_since, "what was written after the backup, one ledger a log"
            assert all(each["entries"] and each["bookies"] for each in found)

    async def limited() -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            await main()

    asyncio.run(limited())
