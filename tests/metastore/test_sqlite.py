"""What is particular to the SQLite store: its file, its processes and its clock."""

from __future__ import annotations

import asyncio
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest

from quire.election.election import Election
from quire.errors import (
    ConfigurationError,
    CorruptStorageError,
    SessionExpiredError,
    StoreUnavailableError,
)
from quire.metastore import open_store, sqlite_file
from quire.metastore.layout import election_candidates_path
from quire.metastore.sqlite import SqliteStore
from quire.metastore.sqlite_path import Mode
from tests.support.session_holder import REPOSITORY, holder

T = TypeVar("T")

LEASE_SECONDS = 1.0
DEADLINE_SECONDS = 30.0


class FakeClock:
    """The machine's clock, in the test's hand."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def with_store(path: Path, body: Callable[[SqliteStore], Awaitable[T]]) -> T:
    async def main() -> T:
        async with asyncio.timeout(DEADLINE_SECONDS):
            store = await SqliteStore.open_or_create(str(path))
            try:
                return await body(store)
            finally:
                await store.close()

    return asyncio.run(main())


async def nothing(store: SqliteStore) -> None:
    return None


def test_what_was_stored_is_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    version = with_store(path, lambda store: store.create("/a/b", b"kept"))
    found = with_store(path, lambda store: store.get("/a/b"))
    assert (found.value, found.version) == (b"kept", version)
    assert with_store(path, lambda store: store.create("/c", b"")) > version


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="not-there"):
        with_store(tmp_path / "not-there" / "metadata.db", nothing)


def test_a_directory_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=tmp_path.name):
        with_store(tmp_path, nothing)


def test_a_file_that_is_no_database_is_named_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"Dear diary, " * 1000)
    with pytest.raises(CorruptStorageError, match=r"notes\.txt"):
        with_store(path, nothing)
    assert path.read_bytes() == b"Dear diary, " * 1000


def test_a_database_of_another_application_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE theirs(x)")
    other.commit()
    other.close()
    before = path.read_bytes()
    with pytest.raises(ConfigurationError, match=r"other\.db.*another application"):
        with_store(path, nothing)
    assert path.read_bytes() == before


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    with_store(path, nothing)
    later = sqlite3.connect(path)
    later.execute("PRAGMA user_version = 2")
    later.close()
    with pytest.raises(ConfigurationError, match="format 2"):
        with_store(path, nothing)


def test_damage_inside_the_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"

    async def fill(store: SqliteStore) -> None:
        for n in range(200):
            await store.create(f"/a/{n}", bytes(1000))

    with_store(path, fill)
    data = path.read_bytes()
    path.write_bytes(data[:8192] + b"\xff" * (len(data) - 8192))

    async def read_all(store: SqliteStore) -> None:
        for name in await store.children("/a"):
            await store.get(f"/a/{name}")

    with pytest.raises(CorruptStorageError, match=r"metadata\.db"):
        with_store(path, read_all)


def remove(path: Path) -> None:
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()


def replace(path: Path) -> None:
    """By one that is in order, as when a copy is put back under running processes."""
    copy = path.with_name("copy.db")
    with_store(copy, lambda store: store.create("/a", b"copied"))
    copy.rename(path)


def remove_log(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


def remove_index(path: Path) -> None:
    path.with_name(f"{path.name}-shm").unlink()


@pytest.mark.parametrize("lose", [remove, replace, remove_log, remove_index])
def test_a_file_that_is_removed_or_replaced_in_use_is_noticed_by_everybody(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    path = tmp_path / "metadata.db"

    async def body(store: SqliteStore) -> None:
        version = await store.create("/a", b"")
        session = await store.open_session(LEASE_SECONDS)
        await session.create("/live", b"")
        waits = [
            asyncio.ensure_future(store.wait("/a", version)),
            asyncio.ensure_future(store.wait_children("/none", [])),
        ]
        standing = asyncio.ensure_future(lead(store))
        await store.wait_children(election_candidates_path("e"), [])
        await asyncio.to_thread(lose, path)
        for call in (
            store.get("/a"),
            store.children("/"),
            store.put("/a", b"into nowhere", version),
            store.create("/b", b""),
            store.open_session(LEASE_SECONDS),
            *waits,
        ):
            with pytest.raises(CorruptStorageError, match=r"metadata\.db.*removed or replaced"):
                await call
        await session.wait_expired()
        assert session.expired
        await standing

    async def lead(store: SqliteStore) -> None:
        election = Election(store, "e", "anna", rng=random.Random(1), session_timeout=LEASE_SECONDS)
        with suppress(CorruptStorageError):
            async with election.lead() as leadership:
                await leadership.wait_lost()

    with_store(path, body)


def test_a_change_is_not_confirmed_when_the_file_goes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "metadata.db"

    async def body(store: SqliteStore) -> None:
        version = await store.create("/a", b"")

        def put(file: sqlite_file.SqliteFile) -> int:
            revise = file._next_revision

            def remove_first() -> int:
                remove(path)
                return revise()

            monkeypatch.setattr(file, "_next_revision", remove_first)
            return file.put("/a", b"lost", version)

        with pytest.raises(CorruptStorageError, match="removed or replaced"):
            await store.change(put)

    with_store(path, body)


def test_a_lock_that_is_not_let_go_is_unavailability(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY_SECONDS", 0.01)
    path = tmp_path / "metadata.db"

    async def body(store: SqliteStore) -> None:
        version = await store.create("/a", b"1")
        rival = sqlite3.connect(path, isolation_level=None)
        try:
            rival.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailableError, match="locked"):
                await store.put("/a", b"2", version)
            assert (await store.get("/a")).value == b"1"
            rival.execute("ROLLBACK")
            await store.put("/a", b"2", version)
        finally:
            rival.close()

    with_store(path, body)


def test_reads_do_not_wait_for_a_lock_to_remove_the_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY_SECONDS", 10 * DEADLINE_SECONDS)
    path, clock = tmp_path / "metadata.db", FakeClock(100.0)

    async def main() -> None:
        owner = await SqliteStore.open_or_create(str(path), clock=clock)
        await (await owner.open_session(60.0)).create("/live/x", b"")
        store = await SqliteStore.open_or_create(str(path), clock=clock)
        rival = sqlite3.connect(path, isolation_level=None)
        try:
            rival.execute("BEGIN IMMEDIATE")
            clock.now += 60.0
            async with asyncio.timeout(DEADLINE_SECONDS):
                await store.children("/live")
        finally:
            rival.close()
        patience = await store.change(lambda file: file._one("PRAGMA busy_timeout"))
        assert patience == (10 * DEADLINE_SECONDS * 1000,)  # that of changes, as ever
        assert await store.children("/live") == []
        await owner.close()
        await store.close()

    asyncio.run(main())


def test_cancelled_callers_leave_a_store_that_works(tmp_path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        version = await store.create("/a", b"")
        waiting = asyncio.ensure_future(store.wait("/a", version))
        await store.get("/a")
        changing = asyncio.ensure_future(store.put("/a", b"", version))
        await asyncio.sleep(0)
        changing.cancel()
        # Whether or not the cancelled change was made, a waiter does not sleep through it.
        if (await store.get("/a")).version != version:
            await waiting
        waiting.cancel()
        await asyncio.gather(waiting, changing, return_exceptions=True)
        assert await store.children("/") == ["a"]

    with_store(tmp_path / "metadata.db", body)


def test_a_lease_of_before_a_reboot_is_dead(tmp_path: Path) -> None:
    async def main() -> None:
        path, clock = str(tmp_path / "metadata.db"), FakeClock(1_000_000.0)
        before = await SqliteStore.open_or_create(path, clock=clock)
        session = await before.open_session(60.0)
        await session.create("/live/x", b"")
        after = await SqliteStore.open_or_create(path, clock=FakeClock(12.0))
        assert await after.children("/live") == []
        await after.close()
        await before.close()

    asyncio.run(main())


def test_a_heartbeat_never_revives_a_lease(tmp_path: Path) -> None:
    async def main() -> None:
        path, clock = str(tmp_path / "metadata.db"), FakeClock(100.0)
        owner = await SqliteStore.open_or_create(path, clock=clock)
        other = await SqliteStore.open_or_create(path, clock=clock)
        session = await owner.open_session(0.06)
        await session.create("/live/x", b"")
        assert await other.children("/live") == ["x"]
        clock.now += 0.06  # as after a stop: all timers of the owner come late
        assert session.expired
        with pytest.raises(SessionExpiredError):
            await session.create("/live/y", b"")
        async with asyncio.timeout(DEADLINE_SECONDS):
            await session.wait_expired()
        assert await owner.change(lambda file: file.renew(session.id, 60.0)) is None
        assert await other.children("/live") == []
        clock.now -= 0.05
        assert await owner.change(lambda file: file.renew(session.id, 60.0)) is None
        await other.close()
        await owner.close()

    asyncio.run(main())


def test_a_killed_owner_loses_its_records_when_its_time_is_up(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"

    async def body(store: SqliteStore) -> None:
        with holder(store.uri, LEASE_SECONDS, "/live/x") as process:
            assert await store.children("/live") == ["x"]
            process.signal(signal.SIGKILL)
            await store.wait_children("/live", ["x"])
            assert await store.children("/live") == []

    with_store(path, body)


def test_a_stopped_owner_learns_that_it_lost_its_lease(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"

    async def body(store: SqliteStore) -> None:
        with holder(store.uri, LEASE_SECONDS, "/live/x") as process:
            await stop_outside_a_transaction(store, process.signal)
            while await store.children("/live"):
                await store.wait_children("/live", ["x"])
            process.signal(signal.SIGCONT)
            line = await asyncio.to_thread(process.read_line)
            assert line == "expired=True SessionExpiredError"
            assert await store.children("/live") == []

    with_store(path, body)


async def stop_outside_a_transaction(
    store: SqliteStore, send: Callable[[signal.Signals], None]
) -> None:
    """Stop a process; again, if its heartbeat was caught with the file locked."""
    while True:
        send(signal.SIGSTOP)
        try:
            version = (await store.get("/live")).version
            await store.put("/live", b"", version)
        except StoreUnavailableError:
            send(signal.SIGCONT)
        else:
            return


INCREMENTS = 10
INCREMENT = f"""
import asyncio, sys
from quire.errors import ConflictError
from quire.metastore import create_store

async def main():
    store = await create_store(sys.argv[1])
    try:
        await store.create("/counter", b"0")
    except ConflictError:
        pass
    for _ in range({INCREMENTS}):
        while True:
            found = await store.get("/counter")
            try:
                await store.put("/counter", b"%d" % (int(found.value) + 1), found.version)
                break
            except ConflictError:
                pass
    await store.close()

asyncio.run(main())
"""


def test_processes_that_make_the_file_at_once_share_it(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    command = [sys.executable, "-c", INCREMENT, uri]
    processes = [subprocess.Popen(command, cwd=REPOSITORY) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4

    async def main() -> bytes:
        store = await open_store(uri)
        value = (await store.get("/counter")).value
        await store.close()
        return value

    assert asyncio.run(main()) == b"%d" % (4 * INCREMENTS)


def test_every_connection_syncs_each_commit(tmp_path: Path) -> None:
    """With NORMAL a commit in WAL mode is not synced: a power cut takes it back."""
    file = sqlite_file.SqliteFile(str(tmp_path / "metadata.db"), lambda: 0.0, Mode.CREATE)
    try:
        modes = [
            file._db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous")
        ]
    finally:
        file.close()
    assert modes == ["wal", 2], "2 is FULL"
