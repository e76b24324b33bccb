"""Damaged files of a bookie: it finds out and says so, or nothing it had acknowledged has changed.

A bookie with entries in files, in the journal, a fence and two ledgers is stopped, one of its
files is damaged in any way, and it is started again. It may refuse to start; it may call an entry
damaged. It may not die of an error without a name, return other bytes than were stored, deny what
it had acknowledged, or forget a fence.

One kind of damage cannot be told from a crash: a journal that lacks its end
(storage/journal/record.py). So the workload ends with a batch that no check counts on; if that
batch is hit as well, the last entries may be gone, but never one from the middle.
"""

from __future__ import annotations

import asyncio
import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quire.errors import (
    IntegrityError,
    LedgerFencedError,
    NoSuchEntryError,
    NoSuchLedgerError,
    QuireError,
)
from quire.run import split_run
from quire.storage.disk.blocks import BLOCK_BYTES
from quire.storage.node import BookieNode
from tests.sim.disk import Cut, SimDisk
from tests.sim.platter import Directory, Inode
from tests.storage.scene import BOOKIE, CLUSTER, KEY, SMALL, Scene, run_of, sealed

FILED, JOURNALED, LAST = range(6), range(6, 12), 12
OTHER = 8
FENCED = 9


@cache
def written() -> dict[str, bytes]:
    """Return the files of a bookie that lost power after a checkpoint and some more entries."""

    async def main() -> dict[str, bytes]:
        scene = Scene()
        node = await scene.start()
        for entry in FILED:
            await node.add(7, KEY, run_of(7, entry))
        await node.add(OTHER, KEY, run_of(OTHER, 0, 2, 4))
        await scene.close()
        scene.disk.kill()
        node = await scene.start()
        for entry in JOURNALED:
            await node.add(7, KEY, run_of(7, entry))
        await node.read_tail(FENCED, fence_key=KEY)
        await node.add(7, KEY, run_of(7, LAST))
        await scene.cut(Cut.LOSES)
        return scene.disk.files()

    return asyncio.run(main())


def disk_of(files: dict[str, bytes]) -> SimDisk:
    """Return a disk that holds some files."""
    disk = SimDisk(random.Random(1))
    for path, content in files.items():
        directory, _, name = path.rpartition("/")
        if directory:
            disk.directories.setdefault(directory, Directory())
            inode = Inode()
            disk.directories[""].names.setdefault(directory, inode)
            disk.directories[""].durable.setdefault(directory, inode)
        inode = Inode(bytearray(content), bytearray(content))
        disk.directories[directory].names[name] = inode
        disk.directories[directory].durable[name] = inode
    return disk


async def check(files: dict[str, bytes], *, counted: bool = True) -> str:
    """Start a bookie on some files; return what became of it.

    Unless the journal's end is `counted` on, its last entries and the fence behind them may be
    gone, in their order.
    """
    disk = disk_of(files)

    def die(error: BaseException) -> None:
        raise AssertionError("it died instead of refusing") from error

    mount = disk.mount()
    try:
        node = await BookieNode.open(
            mount, BOOKIE, CLUSTER, rng=random.Random(2), on_fatal=die, options=SMALL
        )
    except QuireError:
        return "refused"
    try:
        for ledger, entries in ((7, FILED), (OTHER, [0, 2, 4])):
            said = [await ask(node, ledger, entry) for entry in entries]
            assert "denied" not in said, f"entries of ledger {ledger}: {said}; one is denied"
        tail = [await ask(node, 7, entry) for entry in JOURNALED] + [await ask_fence(node)]
        kept = tail.index("denied") if "denied" in tail else len(tail)
        assert set(tail[kept:]) <= {"denied"}, f"not the last ones only: {tail}"
        assert kept == len(tail) or not counted, f"{tail}: what was acknowledged is denied"
        return "damage named" if "damaged" in [*said, *tail] else "served"
    finally:
        await node.close()
        await mount.close()


async def ask(node: BookieNode, ledger: int, entry: int) -> str:
    try:
        ((found, frame),) = split_run(await node.read(ledger, entry, entry))
    except (NoSuchEntryError, NoSuchLedgerError):
        return "denied"
    except IntegrityError:
        return "damaged"
    assert (found, frame) == (entry, sealed(ledger, entry)), "other bytes than were stored"
    return "there"


async def ask_fence(node: BookieNode) -> str:
    try:
        await node.add(FENCED, KEY, run_of(FENCED, 0))
    except LedgerFencedError:
        return "there"
    return "denied"


KINDS = ["flip", "zero", "insert", "remove", "cut", "copy", "swap"]

Step = tuple[str, float, float, int]
"""What happens, where it begins and ends (as parts of the file that is in use), and a number."""

STEPS = st.tuples(st.sampled_from(KINDS), st.floats(0, 1), st.floats(0, 1), st.integers(0, 255))


def damaged(data: bytes, steps: list[Step], others: list[bytes]) -> bytes:
    """Return what is left of a file."""
    changed = bytearray(data)
    used = len(data.rstrip(b"\0"))
    for kind, start, end, number in steps:
        at, to = sorted((int(start * used), int(end * used)))
        if kind == "flip" and at < len(changed):
            changed[at] ^= 1 << number % 8
        elif kind == "zero":
            changed[at:to] = bytes(len(changed[at:to]))
        elif kind == "insert":
            changed[at:at] = bytes([number]) * (1 + number % 40)
        elif kind == "remove":
            del changed[at : at + 1 + number % 40]
        elif kind == "cut":
            del changed[at:]
        elif kind == "copy":
            changed[to : to + 4096] = changed[at : at + 4096]
        elif kind == "swap":
            changed[:] = others[number % len(others)]
    return bytes(changed)


def end_survives(before: bytes, after: bytes) -> bool:
    """Whether the last batch of a journal segment, which proves those before it, is still there."""
    at = max(
        offset
        for offset in range(0, len(before), BLOCK_BYTES)
        if before[offset : offset + BLOCK_BYTES].strip(b"\0")
    )
    return before[at : at + BLOCK_BYTES] == after[at : at + BLOCK_BYTES]


@settings(max_examples=500, deadline=None)
@given(st.integers(0, 99), st.lists(STEPS, min_size=1, max_size=3))
def test_a_damaged_file_is_found_out(which: int, steps: list[Step]) -> None:
    files = dict(written())
    paths = [path for path in sorted(files) if files[path].strip(b"\0")]
    path = paths[which % len(paths)]
    before, others = files[path], [files[each] for each in paths]
    files[path] = damaged(before, steps, others)
    in_journal = path.startswith("journal/")
    asyncio.run(check(files, counted=not in_journal or end_survives(before, files[path])))


def test_undamaged_files_serve() -> None:
    assert asyncio.run(check(dict(written()))) == "served"


def test_a_missing_file_is_never_taken_for_an_empty_one() -> None:
    for missing in sorted(written()):
        files = {path: content for path, content in written().items() if path != missing}
        asyncio.run(check(files, counted=True))


def test_half_an_entry_file_is_named() -> None:
    for path in [path for path in written() if path.endswith(".entries")]:
        files = dict(written())
        files[path] = files[path][: len(files[path]) // 2]
        assert asyncio.run(check(files)) in ("refused", "damage named")


def test_the_oracle_sees_a_lost_end() -> None:
    """Without its end the journal is as after a crash: the last entries are gone, no others."""
    path = max(path for path in written() if path.startswith("journal/") and has_records(path))
    files = dict(written())
    files[path] = files[path][: 3 * BLOCK_BYTES].ljust(len(files[path]), b"\0")
    assert asyncio.run(check(files, counted=False)) == "served"
    with pytest.raises(AssertionError, match="is denied"):
        asyncio.run(check(files, counted=True))


def has_records(path: str) -> bool:
    return bool(written()[path][BLOCK_BYTES:].strip(b"\0"))
