"""The thread of a SQLite store, and its sessions, last as long as their store."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from quire.errors import HandleClosedError
from quire.metastore import sqlite
from quire.metastore.sqlite import SqliteStore, _Worker
from quire.metastore.sqlite_file import SqliteFile
from quire.metastore.sqlite_path import Mode


@pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")  # from Python 3.13 on
def test_a_store_that_is_forgotten_keeps_neither_thread_nor_file(tmp_path: Path) -> None:
    async def main() -> list[threading.Thread]:
        before = set(threading.enumerate())
        store = await SqliteStore.open_or_create(str(tmp_path / "metadata.db"))
        await store.create("/a", b"1")
        threads = [each for each in threading.enumerate() if each not in before]
        assert threads
        return threads

    threads = asyncio.run(main())
    gc.collect()
    for each in threads:
        each.join(10)
        assert not each.is_alive()
    gc.collect()  # what the thread still held: in here nobody minds that the file was not closed


def test_a_worker_that_was_shut_down_takes_no_call_that_nobody_would_make() -> None:
    worker = _Worker("w")
    assert worker.submit(lambda: 7).result(10) == 7
    worker.shutdown()
    with pytest.raises(RuntimeError, match="shut down"):
        worker.submit(lambda: 8)


def test_a_session_that_comes_when_its_store_is_closed_is_none(tmp_path: Path) -> None:
    """Nobody would renew it, and its heartbeat would run on."""

    async def main() -> None:
        store = await SqliteStore.open_or_create(str(tmp_path / "m.db"))
        opening = asyncio.create_task(store.open_session(1.0))
        await asyncio.sleep(0)
        await store.close()
        with pytest.raises(HandleClosedError):
            await opening
        names = {task.get_name() for task in asyncio.all_tasks()}
        assert "sqlite session heartbeat" not in names

    asyncio.run(asyncio.wait_for(main(), 30.0))


def test_an_opening_that_is_cancelled_leaves_neither_thread_nor_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = threading.Event(), threading.Event()
    workers: list[_Worker] = []

    class Noted(_Worker):
        def __init__(self, name: str) -> None:
            super().__init__(name)
            workers.append(self)

    class Slow(SqliteFile):
        def __init__(self, path: str, clock: Callable[[], float], mode: Mode) -> None:
            super().__init__(path, clock, mode)
            begun.set()
            assert goes_on.wait(30)

    async def main() -> None:
        opening = asyncio.create_task(SqliteStore.open_or_create(str(tmp_path / "m.db")))
        assert await asyncio.to_thread(begun.wait, 30)
        opening.cancel()
        outcome = (await asyncio.gather(opening, return_exceptions=True))[0]
        assert isinstance(outcome, asyncio.CancelledError)
        goes_on.set()
        await asyncio.to_thread(workers[0]._thread.join, 10)
        assert not workers[0]._thread.is_alive()
        assert not (tmp_path / "m.db-wal").exists()  # the last to close it removes it

    monkeypatch.setattr(sqlite, "SqliteFile", Slow)
    monkeypatch.setattr(sqlite, "_Worker", Noted)
    asyncio.run(asyncio.wait_for(main(), 60.0))


def test_a_close_that_is_cancelled_at_a_session_closes_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        store = await SqliteStore.open_or_create(str(tmp_path / "m.db"))
        session = await store.open_session(60.0)
        stuck = asyncio.Event()

        async def never() -> None:
            stuck.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(session, "close", never)
        closing = asyncio.create_task(store.close())
        await stuck.wait()
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        await asyncio.to_thread(store._thread._thread.join, 10)
        assert not store._thread._thread.is_alive()
        assert not (tmp_path / "m.db-wal").exists()
        session._tasks.cancel()

    asyncio.run(asyncio.wait_for(main(), 30.0))


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_a_close_that_is_cancelled_leaves_neither_thread_nor_file_open(
    tmp_path: Path, steps: int
) -> None:
    async def main() -> None:
        store = await SqliteStore.open_or_create(str(tmp_path / "m.db"))
        version = await store.create("/a", b"")
        waiting = asyncio.create_task(store.wait("/a", version))
        goes_on = threading.Event()
        await store.get("/a")
        store._thread.submit(goes_on.wait)  # busy: whatever is asked of it has to wait
        closing = asyncio.create_task(store.close())
        for _ in range(steps):
            await asyncio.sleep(0)
        closing.cancel()
        await asyncio.sleep(0)
        goes_on.set()
        outcomes = await asyncio.gather(closing, waiting, return_exceptions=True)
        assert isinstance(outcomes[0], asyncio.CancelledError)
        assert isinstance(outcomes[1], HandleClosedError)
        await asyncio.to_thread(store._thread._thread.join, 10)
        assert not store._thread._thread.is_alive()
        assert not (tmp_path / "m.db-wal").exists()  # the last to close it removes it

    asyncio.run(asyncio.wait_for(main(), 30.0))
