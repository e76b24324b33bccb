"""The thread of a SQLite store lasts as long as its store."""

from __future__ import annotations

import asyncio
import gc
import threading
from pathlib import Path

from quire.metastore.sqlite import SqliteStore


def test_a_store_that_is_forgotten_keeps_neither_thread_nor_file(tmp_path: Path) -> None:
    async def main() -> list[threading.Thread]:
        before = set(threading.enumerate())
        store = await SqliteStore.open(str(tmp_path / "metadata.db"))
        await store.create("/a", b"1")
        threads = [each for each in threading.enumerate() if each not in before]
        assert threads
        return threads

    threads = asyncio.run(main())
    gc.collect()
    for each in threads:
        each.join(10)
        assert not each.is_alive()
