"""Offloaded segments in the simulator: where files lie, threads, and the watch over both."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

from quire.log.manifest.cold_files import ColdFile
from quire.log.manifest.manifest import LogManifest, SegmentEnd
from quire.metastore.layout import log_path
from quire.testing.sim.loop import new_loop
from quire.testing.sim.process import Incarnation
from quire.testing.sim.sealed import SimEscape
from tests.sim.file_watch import FileWatch
from tests.sim.history import Violation
from tests.sim.tier import NOWHERE, SCHEME, SimTier, Threads

ID = "0123456789abcdef0123456789abcdef"
FIRST = LogManifest("log", ID, 0).take_over({}, 7, 0)
SECOND = FIRST.take_over({1: SegmentEnd(1, 2, 2, 10, 0)}, 8, 0)
FILE = ColdFile(f"{SCHEME}cold/{ID}", "00000001-7-0000abcd.parquet", 3, 0)
PATH = f"cold/{ID}/00000001-7-0000abcd.parquet"
WAITING = f"cold/{ID}/_attempts/00000001-7-0000abcd.parquet"
MOVED = replace(
    SECOND,
    tiers=(FILE.tier,),
    rows=(replace(SECOND.segments[0], cold=FILE), *SECOND.segments[1:]),
)


class Shelf:
    """A tier that does as it is asked, and the watch over it."""

    def __init__(self, *files: str) -> None:
        self.noted: list[str] = []
        self.tier = SimTier(random.Random(0), self.noted.append)
        self.tier.heal()
        self.system: Any = fs.PyFileSystem(self.tier)
        self.found: list[Violation] = []
        self.watch = FileWatch("log", self.tier, self.found.append)
        for path in files:
            self.tier.files[path] = bytearray(b"abc")

    def put(self, manifest: LogManifest | None) -> None:
        value = manifest.encode() if manifest else None
        self.watch.changed(log_path("log"), value, 0)

    def says(self, text: str) -> bool:
        return [text in str(each) for each in self.found] == [True]


def test_a_file_that_moves_and_goes_in_order_is_no_violation() -> None:
    shelf = Shelf(PATH)
    shelf.put(SECOND)
    shelf.watch.check_swept()
    shelf.put(MOVED)
    shelf.watch.check_swept()
    shelf.put(MOVED.trim(SECOND.segments[1].start))
    shelf.system.delete_file(PATH)
    shelf.put(None)
    assert shelf.found == []


def test_file_watch_catches_a_file_that_is_not_there_or_not_whole() -> None:
    for content in (None, b"ab"):
        shelf = Shelf()
        if content:
            shelf.tier.files[PATH] = bytearray(content)
        shelf.put(MOVED)
        assert shelf.says("instead of 3")
    shelf = Shelf(PATH)
    shelf.tier.damaged.add(PATH)
    shelf.put(MOVED)
    assert shelf.says("is damaged")


def test_file_watch_catches_the_deletion_of_a_named_file() -> None:
    shelf = Shelf(PATH)
    shelf.put(MOVED)
    shelf.system.delete_file(PATH)
    assert shelf.says("is deleted, and the manifest names it")


def test_a_file_may_be_in_either_place_or_in_both() -> None:
    shelf = Shelf(WAITING)
    shelf.put(MOVED)
    shelf.system.move(WAITING, PATH)
    assert list(shelf.tier.files) == [PATH]
    shelf.tier.files[WAITING] = bytearray(b"abc")
    shelf.system.delete_file(WAITING)
    assert shelf.found == []


def test_file_watch_catches_a_file_that_appears_before_it_is_named() -> None:
    shelf = Shelf(WAITING)
    shelf.put(SECOND)
    shelf.system.move(WAITING, PATH)
    assert shelf.says("no manifest named it")


def test_file_watch_catches_a_tier_that_takes_no_files() -> None:
    shelf = Shelf()
    with pytest.raises(OSError, match="no such bucket"):
        shelf.system.open_output_stream(f"{NOWHERE}/{ID}/x")
    assert shelf.system.get_file_info(fs.FileSelector(f"{NOWHERE}/{ID}")) == []
    shelf.put(replace(SECOND, tiers=(f"{SCHEME}{NOWHERE}/{ID}",)))
    assert shelf.says("takes no files")


def test_file_watch_catches_the_deletion_of_a_foreign_file() -> None:
    shelf = Shelf(f"cold/{ID}/thesis.txt")
    shelf.put(MOVED)
    shelf.found.clear()
    shelf.system.delete_file(f"cold/{ID}/thesis.txt")
    assert shelf.says("C13")


def test_a_move_that_fails_leaves_the_file_in_both_places() -> None:
    shelf = Shelf(WAITING)
    shelf.put(MOVED)
    shelf.tier.refusal = 0.5
    while len(shelf.tier.files) < 2:
        with suppress(OSError):
            shelf.system.move(WAITING, PATH)
        if WAITING not in shelf.tier.files:
            shelf.tier.files = {WAITING: bytearray(b"abc")}
    assert set(shelf.tier.files) == {PATH, WAITING}
    assert shelf.found == []


def test_file_watch_catches_what_is_left() -> None:
    other = PATH.replace("0000abcd", "0000def0")
    shelf = Shelf(PATH, other)
    shelf.put(SECOND)
    shelf.watch.check_swept()
    shelf.put(MOVED)
    with pytest.raises(Violation, match="def0"):
        shelf.watch.check_swept()
    shelf.put(None)
    assert shelf.says("the log is gone")


def test_a_tier_refuses_forgets_to_say_and_spoils() -> None:
    shelf = Shelf(PATH)
    shelf.tier.refusal = 1.0
    with pytest.raises(OSError, match="does not answer"):
        shelf.system.delete_file(PATH)
    assert PATH in shelf.tier.files
    shelf.tier.refusal, shelf.tier.silence = 0.0, 1.0
    with pytest.raises(OSError, match="does not answer"):
        shelf.system.delete_file(PATH)
    assert PATH not in shelf.tier.files
    shelf.tier.silence, shelf.tier.damage = 0.0, 1.0
    with shelf.system.open_output_stream(PATH) as stream:
        stream.write(b"abcd")
    assert len(shelf.tier.files[PATH]) == 4
    assert shelf.tier.files[PATH] != b"abcd"
    assert shelf.tier.damaged == {PATH}
    assert shelf.noted == ["tier failed", "tier failed", "file damaged"]


def test_a_tier_is_a_file_system() -> None:
    shelf = Shelf()
    with shelf.system.open_output_stream(PATH) as stream:
        stream.write(b"ab")
        stream.write(b"cd")
        assert shelf.tier.files[PATH] == b"abcd", "seen while it is written"
    with shelf.system.open_input_file(PATH) as file:
        assert file.read_at(2, 1) == b"bc"
        assert isinstance(file, pa.NativeFile)
    assert [each.path for each in shelf.system.get_file_info(fs.FileSelector(f"cold/{ID}"))] == [
        PATH
    ]
    shelf.system.delete_file(PATH)
    assert shelf.system.get_file_info(PATH).type is fs.FileType.NotFound
    with pytest.raises(FileNotFoundError):
        shelf.system.open_input_file(PATH)


def play(body: Any) -> None:
    loop = new_loop(random.Random(0))
    try:
        loop.run_until_complete(body(loop))
    finally:
        loop.dispose()


def test_without_threads_nothing_leaves_the_simulation() -> None:
    async def body(loop: Any) -> None:
        with pytest.raises(SimEscape):
            await asyncio.to_thread(int)

    play(body)


def test_a_thread_takes_time_and_gives_results_and_errors() -> None:
    async def body(loop: Any) -> None:
        loop.threads = Threads(loop, random.Random(0))
        assert await asyncio.to_thread(int, "7") == 7
        assert loop.time() > 0
        with pytest.raises(ValueError, match="seven"):
            await asyncio.to_thread(int, "seven")

    play(body)


def test_a_thread_works_on_when_nobody_waits_but_not_when_its_process_is_dead() -> None:
    async def body(loop: Any) -> None:
        loop.threads = Threads(loop, random.Random(0))
        done: list[str] = []

        async def work(name: str) -> None:
            await asyncio.to_thread(done.append, name)

        living, dead = Incarnation(loop, "a", 0), Incarnation(loop, "b", 0)
        waiting = [living.spawn(work("cancelled")), dead.spawn(work("killed"))]
        await asyncio.sleep(0.00001)
        waiting[0].cancel()
        loop.kill(dead)
        await asyncio.sleep(10)
        assert done == ["cancelled"]

    play(body)
