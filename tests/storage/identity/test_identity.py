from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from quire.errors import (
    ConfigurationError,
    CorruptRecordError,
    DirectoryInUseError,
    NodeExistsError,
    StoreOutcomeUnknownError,
    StoreWentBackError,
    WrongBookieError,
)
from quire.metastore.cluster import Cluster
from quire.metastore.layout import CLUSTER, COOKIES, cookie_path
from quire.metastore.memory import MemoryStore
from quire.metastore.record import encode_record
from quire.storage.disk.local import LocalDisk
from quire.storage.disk.local_file import LocalFile
from quire.storage.disk.port import DiskSpace
from quire.storage.identity.cookie import BookieCookie, Role, read_cookie
from quire.storage.identity.identity import (
    NewPart,
    cluster_id,
    format_directory,
    format_disk,
    identify,
    is_formatted,
)


def on_disk(tmp_path: Path, check: Callable[[LocalDisk, MemoryStore], Awaitable[None]]) -> None:
    async def main() -> None:
        disk, store = LocalDisk(tmp_path / "disk", create=True), MemoryStore()
        try:
            await check(disk, store)
        finally:
            await disk.close()
            await store.close()

    asyncio.run(main())


def test_a_formatted_disk_is_identified(tmp_path: Path) -> None:
    async def check(disk: LocalDisk, store: MemoryStore) -> None:
        bookie = await format_disk(disk, store, random.Random(1))
        cookie = await identify(disk, store)
        assert cookie.bookie == bookie
        assert cookie.cluster == await cluster_id(store, random.Random(2))
        assert await store.children(COOKIES) == [bookie]

    on_disk(tmp_path, check)


def test_a_disk_that_was_not_formatted_is_refused(tmp_path: Path) -> None:
    async def check(disk: LocalDisk, store: MemoryStore) -> None:
        with pytest.raises(ConfigurationError, match="quire bookie format"):
            await identify(disk, store)

    on_disk(tmp_path, check)


def test_a_disk_is_formatted_once(tmp_path: Path) -> None:
    async def check(disk: LocalDisk, store: MemoryStore) -> None:
        bookie = await format_disk(disk, store, random.Random(1))
        with pytest.raises(ConfigurationError, match=bookie):
            await format_disk(disk, store, random.Random(2))
        assert await store.children(COOKIES) == [bookie]
        assert (await identify(disk, store)).bookie == bookie

    on_disk(tmp_path, check)


def test_a_disk_with_other_files_is_not_formatted(tmp_path: Path) -> None:
    async def check(disk: LocalDisk, store: MemoryStore) -> None:
        (tmp_path / "disk" / "thesis.tex").write_text("years of work")
        with pytest.raises(ConfigurationError, match=r"thesis\.tex"):
            await format_disk(disk, store, random.Random(1))
        assert await store.children(COOKIES) == []
        assert await read_cookie(disk) is None

    on_disk(tmp_path, check)


def test_a_disk_of_another_cluster_is_refused(tmp_path: Path) -> None:
    async def check(disk: LocalDisk, store: MemoryStore) -> None:
        await format_disk(disk, store, random.Random(1))
        other = MemoryStore()
        with pytest.raises(WrongBookieError, match="no cookie"):
            await identify(disk, other)
        await other.close()

    on_disk(tmp_path, check)


def test_a_cookie_that_differs_from_its_twin_is_refused(tmp_path: Path) -> None:
    async def check(disk: LocalDisk, store: MemoryStore) -> None:
        bookie = await format_disk(disk, store, random.Random(1))
        path = cookie_path(bookie)
        twin = encode_record("cookie", 1, BookieCookie(bookie, "elsewhere").body())
        version = await store.put(path, twin, (await store.get(path)).version)
        with pytest.raises(WrongBookieError, match="elsewhere"):
            await identify(disk, store)
        for damaged in (b"junk", encode_record("cookie", 1, {"bookie": 3})):
            version = await store.put(path, damaged, version)
            with pytest.raises(CorruptRecordError):
                await identify(disk, store)
        await store.put(path, encode_record("cookie", 2, {}), version)
        with pytest.raises(CorruptRecordError, match="upgrade"):
            await identify(disk, store)

    on_disk(tmp_path, check)


def test_a_cookie_whose_cluster_is_gone_is_refused(tmp_path: Path) -> None:
    async def check(disk: LocalDisk, store: MemoryStore) -> None:
        bookie = await format_disk(disk, store, random.Random(1))
        mine = await cluster_id(store, random.Random(1))
        await store.delete(CLUSTER)
        with pytest.raises(WrongBookieError, match="no cluster"):
            await identify(disk, store)
        # Somebody began a new cluster in a store that was not emptied.
        other = await cluster_id(store, random.Random(2))
        assert other != mine
        with pytest.raises(WrongBookieError, match=other):
            await identify(disk, store)
        assert await store.children(COOKIES) == [bookie]

    on_disk(tmp_path, check)


def test_all_who_come_first_agree_on_the_cluster() -> None:
    async def main() -> None:
        store = MemoryStore()
        ids = await asyncio.gather(*(cluster_id(store, random.Random(n)) for n in range(5)))
        assert len(set(ids)) == 1

    asyncio.run(main())


@pytest.mark.parametrize("was_made", [True, False])
def test_a_lost_answer_does_not_split_the_cluster(was_made: bool) -> None:
    class Lossy(MemoryStore):
        async def create(self, path: str, value: bytes) -> int:
            if was_made or self.lost:
                await super().create(path, value)
            if not self.lost:
                self.lost = True
                raise StoreOutcomeUnknownError(path, "lost for the test")
            return 0

        lost = False

    async def main() -> None:
        store = Lossy()
        first = await cluster_id(store, random.Random(1))
        assert await cluster_id(store, random.Random(2)) == first

    asyncio.run(main())


def test_a_damaged_cluster_record_is_an_error() -> None:
    async def main() -> None:
        store = MemoryStore()
        await store.create(CLUSTER, encode_record("cluster", 1, {}))
        with pytest.raises(CorruptRecordError):
            await cluster_id(store, random.Random(1))

    asyncio.run(main())


def test_directories_are_formatted_and_recognised(tmp_path: Path) -> None:
    async def main() -> None:
        uri = f"sqlite://{tmp_path}/metadata.db"
        directory = tmp_path / "new" / "bookie"
        assert not await is_formatted(directory)
        bookie = await format_directory(directory, uri)
        assert await is_formatted(directory)
        with pytest.raises(ConfigurationError, match=bookie):
            await format_directory(directory, uri)
        assert bookie != await format_directory(tmp_path / "other", uri)
        (directory / "cookie").write_bytes(b"nonsense")
        assert await is_formatted(directory), "it is not to be formatted again"

    asyncio.run(main())


@pytest.mark.parametrize("is_journal", [True, False])
@pytest.mark.parametrize("is_inside", [True, False])
def test_directories_inside_each_other_are_refused_before_they_are_made(
    tmp_path: Path, is_journal: bool, is_inside: bool
) -> None:
    """The outer one would not be empty, and what was made would not let it be formatted later."""

    async def main() -> None:
        uri = f"sqlite://{tmp_path}/metadata.db"
        inner, outer = tmp_path / "bookie" / "more", tmp_path / "bookie"
        directory, other = (outer, inner) if is_inside else (inner, outer)
        journal, entries = (other, []) if is_journal else (None, [other])
        with pytest.raises(ConfigurationError, match="is inside"):
            await format_directory(directory, uri, journal=journal, entries=entries)
        assert not outer.exists()

    asyncio.run(main())


def test_a_directory_that_cannot_be_formatted_waits_for_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unreachable(uri: str) -> MemoryStore:
        raise AssertionError("the store was asked before the directory was looked at")

    async def main() -> None:
        monkeypatch.setattr("quire.storage.identity.identity.open_store", unreachable)
        used, held = tmp_path / "used", tmp_path / "held"
        used.mkdir()
        (used / "notes").write_text("mine")
        with pytest.raises(ConfigurationError, match="notes"):
            await format_directory(used, "zk://nowhere:2181/quire")
        holder = LocalDisk(held, create=True)
        with pytest.raises(DirectoryInUseError):
            await format_directory(held, "zk://nowhere:2181/quire")
        with pytest.raises(DirectoryInUseError):
            await format_directory(tmp_path / "main", "zk://nowhere:2181/quire", journal=held)
        await holder.close()

    asyncio.run(main())


def test_an_id_is_never_given_twice(tmp_path: Path) -> None:
    async def check(disk: LocalDisk, store: MemoryStore) -> None:
        await format_disk(disk, store, random.Random(1))
        other = LocalDisk(tmp_path / "other", create=True)
        # The same generator state: what the store knows already is refused.
        rng = random.Random(1)
        with pytest.raises(NodeExistsError):
            await format_disk(other, store, rng)
        assert await read_cookie(other) is None
        await other.close()

    on_disk(tmp_path, check)


def test_a_format_that_failed_can_be_repeated(tmp_path: Path) -> None:
    class Full(LocalDisk):
        async def open(self, path: str, *, create: bool = False) -> LocalFile:
            if create:
                raise OSError(errno.ENOSPC, "for the test")
            return await super().open(path, create=create)

    async def main() -> None:
        store, part = MemoryStore(), LocalDisk(tmp_path / "part", create=True)
        parts = [NewPart(Role.ENTRIES, str(tmp_path / "part"), part)]
        full = Full(tmp_path / "main", create=True)
        with pytest.raises(OSError, match="for the test"):
            await format_disk(full, store, random.Random(1), parts)
        assert await store.children(COOKIES) == []
        await full.close()
        disk = LocalDisk(tmp_path / "main")
        bookie = await format_disk(disk, store, random.Random(2), parts)
        assert (await read_cookie(part)) is not None
        assert await store.children(COOKIES) == [bookie]
        await part.close()
        await disk.close()

    asyncio.run(main())


def test_a_cookie_that_was_written_keeps_its_twin_whatever_failed_behind_it(tmp_path: Path) -> None:
    """Without it the directory could be neither served nor formatted again."""

    class Failing(LocalDisk):
        async def sync_directory(self, directory: str = "") -> None:
            if "cookie" in await self.list():
                raise OSError(errno.EIO, "for the test")
            await super().sync_directory(directory)

    async def main() -> None:
        disk, store = Failing(tmp_path / "disk", create=True), MemoryStore()
        with pytest.raises(OSError, match="for the test"):
            await format_disk(disk, store, random.Random(1))
        cookie = await identify(disk, store)
        assert await store.children(COOKIES) == [cookie.bookie]
        await disk.close()

    asyncio.run(main())


def test_a_store_that_was_put_back_is_refused_until_it_is_adopted(tmp_path: Path) -> None:
    async def check(disk: LocalDisk, store: MemoryStore) -> None:
        await format_disk(disk, store, random.Random(1))
        record = await store.get(CLUSTER)
        found = Cluster.decode(record.value)
        version = await store.put(
            CLUSTER, replace(found, incarnation=1, adopted=False).encode(), record.version
        )
        with pytest.raises(StoreWentBackError, match="quire metadata adopt"):
            await identify(disk, store)
        await store.put(CLUSTER, replace(found, incarnation=1).encode(), version)
        await identify(disk, store)

    on_disk(tmp_path, check)


def test_a_disk_that_is_too_small_is_not_formatted(tmp_path: Path) -> None:
    class Small(LocalDisk):
        async def space(self, directory: str = "") -> DiskSpace:
            return DiskSpace(free_bytes=159 * 2**20, total_bytes=160 * 2**20)

    async def main() -> None:
        disk, store = Small(tmp_path / "disk", create=True), MemoryStore()
        with pytest.raises(
            ConfigurationError, match=r"159 MiB of free space.* needs 160.* larger disk"
        ):
            await format_disk(disk, store, random.Random(1))
        assert await disk.list() == []
        assert await store.children(COOKIES) == []
        await disk.close()

    asyncio.run(main())
