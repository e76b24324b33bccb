"""Offloads that crash, meet others or are trimmed away: nothing is lost, and no file left over."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from pyarrow import dataset

from quire.errors import ConfigurationError, NoSuchLogError
from quire.log.cold import tier as cold_tier
from quire.log.cold.parquet import FileWriter
from quire.log.cold.reader import ColdReader, open_file
from quire.log.maintenance.offload import is_orphan
from quire.log.manifest import manifest
from quire.log.manifest.cold_files import ATTEMPTS, ColdFile
from quire.log.manifest.manifest import LogManifest
from quire.log.records.position import Position
from quire.metastore.layout import PARTS
from tests.log.offloading import files, offload, write_log
from tests.support.log_cluster import NAME, PATH, Gate, LogCluster


class CrashError(Exception):
    """The process ends here."""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_at_any_call_of_the_store_loses_nothing(tmp_path: Path, moment: str) -> None:
    async def attempt(number: int) -> bool:
        """Crash at a call; returns False when there was none of that number."""
        target = tmp_path / f"{moment}{number}"
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            doing, calls = cluster.new_client(), count()

            async def crash(method: str, path: str) -> None:
                if next(calls) == number:
                    raise CrashError

            setattr(doing.store, moment, crash)
            crashed = False
            try:
                await offload(doing, target)
            except CrashError:
                crashed = True
            assert await cluster.new_client().read() == records
            again = cluster.new_client()
            found = await offload(again, target)
            assert await cluster.new_client().read() == records
            assert await cluster.ledgers() == []
            named = [each.cold.name for each in found.segments if each.cold]
            assert [each.name for each in files(target)] == sorted(named)
            await again.logs.delete(NAME)
            assert files(target) == []
            return crashed

    async def main() -> int:
        for number in count():
            if not await attempt(number):
                return number
        raise AssertionError

    assert asyncio.run(main()) > 25


def test_a_trim_deletes_files_after_the_manifest_forgot_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            client = cluster.new_client()
            await offload(client, tmp_path, keep=True)
            assert len(await cluster.ledgers()) == 4
            doing, calls = cluster.new_client(), count()

            async def crash(method: str, path: str) -> None:
                if method == "put" and path == PATH and next(calls) == 0:
                    raise CrashError

            doing.store.after = crash
            with pytest.raises(CrashError):
                await doing.logs.trim(NAME, Position(3, 0, 0))
            manifest = await client.manifest()
            assert len(manifest.doomed_files) == len(manifest.doomed) == 2
            assert (len(files(tmp_path)), len(await cluster.ledgers())) == (4, 4)
            assert await client.read() == [each for each in records if each.position.segment >= 3]
            await client.logs.trim(NAME, Position(3, 0, 0))
            assert (len(files(tmp_path)), len(await cluster.ledgers())) == (2, 2)
            manifest = await client.manifest()
            assert (manifest.doomed_files, manifest.doomed) == ((), ())
            await client.logs.delete(NAME)
            assert files(tmp_path) == []

    asyncio.run(main())


def test_two_attempts_leave_one_file_and_both_may_be_repeated(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            one, other = (cluster.new_client().logs.offload(NAME) for _ in range(2))
            tier, segments = await one.begin(str(tmp_path))
            assert await other.begin(str(tmp_path)) == (tier, segments)
            mine = {each.number: await one.write(each, tier) for each in segments}
            theirs = {each.number: await other.write(each, tier) for each in segments}
            assert len(files(tmp_path)) == 8
            assert await one.gc() == []  # somebody may still commit them
            await one.commit(mine)
            await other.commit(theirs)
            await one.commit(mine)
            assert sorted(each.name for each in mine.values()) == [
                each.name for each in files(tmp_path)
            ]
            await one.release()
            await other.release()
            assert await cluster.new_client().read() == records

    asyncio.run(main())


def test_a_segment_that_was_trimmed_meanwhile_takes_its_file_along(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await write_log(cluster)
            client = cluster.new_client()
            work = client.logs.offload(NAME)
            tier, segments = await work.begin(str(tmp_path))
            cold = await work.write(segments[0], tier)
            left = await work.write(segments[1], tier)
            await client.logs.trim(NAME, Position(3, 0, 0))
            manifest = await work.commit({segments[0].number: cold})
            assert manifest.doomed_files == ()
            assert [str(each) for each in await work.gc()] == [left.uri]
            await client.logs.delete(NAME)
            with pytest.raises(NoSuchLogError):
                await work.commit({segments[1].number: left})
            assert files(tmp_path) == []

    asyncio.run(main())


def test_a_directory_under_two_names_is_not_swept_of_what_is_in_use(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            disk, alias = tmp_path / "disk", tmp_path / "alias"
            disk.mkdir()
            alias.symlink_to(disk)
            client = cluster.new_client()
            async with await client.open():
                await client.logs.offload(NAME).begin(disk.as_uri())  # nothing is closed yet
            records = await write_log(cluster)
            work = client.logs.offload(NAME)
            tier, segments = await work.begin(alias.as_uri())
            await work.commit({each.number: await work.write(each, tier) for each in segments})
            await work.release()
            assert await work.gc() == []
            assert await client.read() == records

    asyncio.run(main())


@pytest.mark.parametrize("step", ["__init__", "add", "finish"])
def test_a_cancelled_attempt_leaves_no_thread_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Files are written in threads, which a cancellation does not end: it has to wait for them."""
    reached, left = threading.Event(), threading.Event()
    overlapped: list[bool] = []
    work, abandon = getattr(FileWriter, step), FileWriter.abandon

    def slow(self: FileWriter, *given: Any) -> Any:
        reached.set()
        overlapped.append(left.wait(0.2))  # whoever abandons the file meanwhile ends the wait
        return work(self, *given)

    def leave(self: FileWriter) -> None:
        left.set()
        abandon(self)

    monkeypatch.setattr(FileWriter, step, slow)
    monkeypatch.setattr(FileWriter, "abandon", leave)

    async def main() -> None:
        async with LogCluster() as cluster:
            await write_log(cluster)
            offloading = cluster.new_client().logs.offload(NAME)
            tier, segments = await offloading.begin(str(tmp_path))
            writing = asyncio.create_task(offloading.write(segments[0], tier))
            await asyncio.to_thread(reached.wait)
            writing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await writing
            assert files(tmp_path) == []

    asyncio.run(main())
    assert overlapped == [False]
    assert files(tmp_path) == []


def test_an_attempt_that_was_cut_short_is_swept_once_it_is_certain(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await write_log(cluster)
            client = cluster.new_client()
            work = client.logs.offload(NAME)
            tier, segments = await work.begin(str(tmp_path))
            name = f"{segments[0].number:08d}-{segments[0].ledger}-00000000.parquet"
            half = Path(url2pathname(urlsplit(tier).path)) / name
            half.parent.mkdir(parents=True, exist_ok=True)
            half.write_bytes(b"PAR1 and what came before the crash")
            assert await work.gc() == []
            await offload(client, tmp_path)
            assert name not in [each.name for each in files(tmp_path)]

    asyncio.run(main())


def test_only_what_is_certain_is_an_orphan() -> None:
    tier = "file:///t/id"
    cold = ColdFile(tier, "00000001-100-aaaaaaaa.parquet", 1, 2)
    log = LogManifest("a", "id", 0, tiers=(tier,)).take_over({}, 100, 0)
    assert not is_orphan(log, cold.name)
    assert not is_orphan(log, "00000002-101-aaaaaaaa.parquet")
    assert not is_orphan(log, "notes.txt")
    sealed = log.append_segment(101, 0).seal_segment(1, manifest.SegmentEnd(0, 1, 1, 1, 0))
    named = replace(sealed.segments[0], cold=cold)
    sealed = replace(sealed, rows=(named, *sealed.segments[1:]))
    assert not is_orphan(sealed, cold.name)
    assert is_orphan(sealed, "00000001-100-bbbbbbbb.parquet")
    trimmed = sealed.trim(Position(2, 0, 0))
    assert trimmed.doomed_files == (cold.uri,)
    assert is_orphan(trimmed, cold.name)
    assert LogManifest.decode("p", sealed.encode()) == sealed
    assert LogManifest.decode("p", trimmed.encode()) == trimmed


def test_files_of_a_manifest_that_was_lost_are_not_swept(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open() as log:
                await log.append(b"in the file alone")
            await offload(client, tmp_path)
            kept = files(tmp_path)
            async with await client.open() as log:
                await log.append(b"in a ledger")
            await cluster.store.delete(PATH)
            await client.logs.rebuild(NAME)
            with suppress(ConfigurationError):
                await offload(client, tmp_path)
            await client.logs.gc_files()
            assert files(tmp_path) == kept
            with pytest.raises(ConfigurationError, match="names none of them"):
                await offload(client, tmp_path)
            await offload(client, tmp_path / "elsewhere")
            assert await client.payloads() == [b"in a ledger"]
            assert set(kept) < set(files(tmp_path))
            await client.logs.delete(NAME)
            assert files(tmp_path) == kept

    asyncio.run(main())


def test_files_of_attempts_are_not_among_those_of_the_table(tmp_path: Path) -> None:
    """Each record once, whatever died or ran twice; as Spark and Arrow read a directory."""

    async def main() -> None:
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            client = cluster.new_client()
            work = client.logs.offload(NAME)
            tier, segments = await work.begin(str(tmp_path))
            table = Path(url2pathname(urlsplit(tier).path))

            def count_rows() -> int:
                return int(dataset.dataset(table).count_rows())

            await work.write(segments[0], tier)  # a task of a job that dies
            assert count_rows() == 0
            found = {each.number: await work.write(each, tier) for each in segments}
            assert count_rows() == 0
            await work.commit(found)
            assert count_rows() == len(records)
            await work.release()
            assert len(await work.gc()) == 1
            assert count_rows() == len(records)
            assert await client.read() == records

    asyncio.run(main())


def test_a_crash_between_the_name_and_the_move_is_made_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is read among the attempts, and each later step moves it."""

    async def main(step: str, target: Path) -> None:
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            client = cluster.new_client()
            work = client.logs.offload(NAME)
            tier, segments = await work.begin(str(target))
            found = {each.number: await work.write(each, tier) for each in segments}
            with monkeypatch.context() as patch:
                patch.setattr(cold_tier, "settle", crash)
                with pytest.raises(CrashError):
                    await work.commit(found)
            assert {each.parent.name for each in files(target)} == {ATTEMPTS}
            assert await client.read() == records
            if step == "trim":
                await client.logs.trim(NAME, Position(3, 0, 0))
                assert len(files(target)) == 2
                await work.gc()
                records = [each for each in records if each.position.segment >= 3]
            elif step == "commit":
                await work.commit(found)
            else:
                await getattr(work, step)()
            assert ATTEMPTS not in {each.parent.name for each in files(target)}
            assert await client.read() == records
            await client.logs.delete(NAME)
            assert files(target) == []

    def crash(*_: object) -> None:
        raise CrashError

    for step in ("release", "gc", "commit", "trim"):
        asyncio.run(main(step, tmp_path / step))


class Gone:
    """An open file of a store that knows files by their names, after the file moved."""

    def read_at(self, count: int, start: int) -> bytes:
        raise FileNotFoundError(2, "no such key")

    def close(self) -> None:
        """Does nothing."""


def test_a_reader_goes_on_when_its_file_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object store forgets the old name; a copy that was not deleted yet does no harm."""

    async def main() -> None:
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            client = cluster.new_client()
            await offload(client, tmp_path)
            for path in files(tmp_path):
                waiting = path.parent / ATTEMPTS / path.name
                waiting.write_bytes(path.read_bytes())
            assert await client.read() == records
            assert await client.logs.offload(NAME).gc() == []
            assert len(files(tmp_path)) == len((await client.manifest()).segments)
            (first, *_) = (await client.manifest()).segments
            assert first.cold is not None
            assert first.end is not None
            reader = await open_file(first.cold, first.ledger, first.end.last_entry, first.base)
            assert isinstance(reader, ColdReader)
            (path, *_) = files(tmp_path)
            waiting = path.parent / ATTEMPTS / path.name
            path.rename(waiting)
            held = reader._file
            assert held is not None
            monkeypatch.setattr(held._place, "_stream", Gone())
            assert (await reader.read_entry(0)).entry == 0
            await reader.close()

    asyncio.run(main())


def test_an_older_tier_is_read_and_swept_as_before(tmp_path: Path) -> None:
    """Attempts lay beside the files that the manifest names."""

    async def main() -> None:
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            client = cluster.new_client()
            await offload(client, tmp_path)
            (path, *_) = files(tmp_path)
            old = path.with_name(f"{path.name[:-16]}0000abcd.parquet")
            old.write_bytes(path.read_bytes())
            assert await client.read() == records
            swept = await client.logs.offload(NAME).gc()
            assert [each.rpartition("/")[2] for each in swept] == [old.name]
            assert not old.exists()

    asyncio.run(main())


def test_nothing_is_offloaded_from_a_log_that_is_being_deleted(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await write_log(cluster)
            client, deleter = cluster.new_client(), cluster.new_client()
            work = client.logs.offload(NAME)
            tier, segments = await work.begin(str(tmp_path))
            deleter.store.before = gate = Gate("children", PARTS)
            deleting = asyncio.create_task(deleter.logs.delete(NAME))
            await gate.reached.wait()
            with pytest.raises(NoSuchLogError):
                await work.write(segments[0], tier)
            with pytest.raises(NoSuchLogError):
                await work.begin(str(tmp_path / "elsewhere"))
            gate.open.set()
            await deleting
            assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240

    asyncio.run(main())


def test_every_directory_that_was_made_for_a_file_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "one" / "two" / "three"
    synced: list[Path] = []
    whole = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        whole(descriptor)

    async def main() -> None:
        async with LogCluster() as cluster:
            await write_log(cluster)
            monkeypatch.setattr(os, "fsync", fsync)
            await offload(cluster.new_client(), target)

    asyncio.run(main())
    made = files(target)
    assert len(made) == 4
    for file in made:
        attempt = file.parent / ATTEMPTS / file.name
        at = synced.index(attempt)
        led = [*attempt.parents][: len(attempt.parents) - len(tmp_path.parents)]
        assert synced[at + 1 : at + 1 + len(led)] == led
        assert led[-1] == tmp_path, "what was there before has the name of what was made"
        moved = len(synced) - 1 - synced[::-1].index(file.parent)
        assert moved > at + len(led), "the move is durable, too"
