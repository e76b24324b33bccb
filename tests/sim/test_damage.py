"""Damage does what it says and keeps to its budget; the wire changes nothing on its way."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import Any

import pytest

from quire.bookie import BookieInfo, LedgerTail
from quire.errors import (
    BookieUnavailableError,
    CorruptEntryError,
    LedgerFencedError,
    NoSuchEntryError,
    QuireError,
)
from quire.outline import NOTHING, Outline
from quire.storage.disk.blocks import BLOCK_BYTES
from quire.storage.journal.record import (
    LAST_OF_BATCH,
    RecordKind,
    SegmentHeader,
    encode_record,
    encode_segment,
)
from quire.storage.journal.segments import segment_path
from tests.sim.damage import Budget, resize, rot
from tests.sim.disk import Cut, SimDisk
from tests.sim.operator import lose_files
from tests.sim.wire import carry_answer, carry_request

SEGMENT = segment_path(1)


def bits_that_differ(before: dict[str, bytes], after: dict[str, bytes]) -> int:
    pairs = ((before[path], after[path]) for path in before)
    return sum((one ^ other).bit_count() for a, b in pairs for one, other in zip(a, b, strict=True))


async def write(disk: SimDisk, path: str, data: bytes) -> None:
    mount = disk.mount()
    if "/" in path:
        await mount.make_directory(path.partition("/")[0])
    file = await mount.open(path, create=True)
    await file.write(0, [data], sync=True)
    await mount.close()


@pytest.mark.parametrize("seed", range(20))
def test_rot_flips_one_bit(seed: int) -> None:
    disk = SimDisk(random.Random(seed))
    asyncio.run(write(disk, "entries/1", bytes(range(1, 200))))
    before = disk.files()
    path = rot(disk, random.Random(seed))
    assert path in (None, "entries/1")
    assert bits_that_differ(before, disk.files()) == (path is not None)


def batch(identity: int, sequence: int) -> bytes:
    body = b"x" * 96
    head = encode_record(RecordKind.MARK, body, sequence, sequence - 1, identity, LAST_OF_BATCH)
    return (head + body).ljust(BLOCK_BYTES, b"\0")


@pytest.mark.parametrize("life_before", [0, 1])
def test_rot_spares_the_journals_last_batch(life_before: int) -> None:
    """Also in a segment that is used again, where records of its life before stand behind."""
    size = BLOCK_BYTES * (4 + life_before)
    header = encode_segment(SegmentHeader(1, 7, 0, size, "b")).ljust(BLOCK_BYTES, b"\0")
    batches = [batch(7, sequence) for sequence in (1, 2, 3)]
    before = [batch(5, 4)] * life_before
    whole = b"".join((header, *batches, *before))
    rotten = 0
    for seed in range(100):
        disk = SimDisk(random.Random(seed))
        asyncio.run(write(disk, SEGMENT, whole))
        rot(disk, random.Random(seed))
        found = disk.files()[SEGMENT]
        rotten += found != whole
        assert found[3 * BLOCK_BYTES :] == whole[3 * BLOCK_BYTES :]
    assert rotten > 50


@pytest.mark.parametrize("seed", range(10))
def test_a_file_is_cut_short_or_grows_by_zeros(seed: int) -> None:
    disk, data = SimDisk(random.Random(seed)), bytes(range(1, 200))
    asyncio.run(write(disk, "entries/1", data))
    assert resize(disk, "grown", random.Random(seed)) == "entries/1"
    longer = disk.files()["entries/1"]
    assert longer.startswith(data)
    assert len(longer) > len(data)
    assert not any(longer[len(data) :])
    assert resize(disk, "cut short", random.Random(seed)) == "entries/1"
    shorter = disk.files()["entries/1"]
    assert disk.inode("entries/1").durable == shorter
    assert longer.startswith(shorter)
    assert len(shorter) < len(longer)


def test_lost_files_are_gone_for_good_and_the_cookie_stays() -> None:
    lost: list[str] = []
    for seed in range(20):
        disk = SimDisk(random.Random(seed))
        asyncio.run(write(disk, "entries/1", b"data"))
        asyncio.run(write(disk, "cookie", b"who"))
        before = set(disk.files())
        gone = set(lose_files(disk, random.Random(seed)))
        disk.power_cut(Cut.KEEPS)
        assert set(disk.files()) == before - gone
        assert "cookie" in disk.files()
        lost += gone
    assert lost


def test_the_budget_is_one_bookie_where_an_ack_means_two_copies() -> None:
    world = SimpleNamespace(loop=SimpleNamespace(ailing=set()))
    one, other = (
        SimpleNamespace(name=name, is_damaged=False, world=world) for name in ("b0", "b1")
    )
    machines: list[Any] = [one, other]
    budget = Budget(0)
    budget.set(ack_quorum=1)
    assert not budget.take(machines[0])
    budget.set(ack_quorum=2)
    assert budget.take(machines[0])
    assert budget.take(machines[0])
    assert not budget.take(machines[1])
    assert one.is_damaged
    assert not other.is_damaged
    assert budget.lost == {"b0"}
    assert world.loop.ailing == {"b0"}


def test_an_error_of_the_disk_counts_where_gaps_are_left_out() -> None:
    world = SimpleNamespace(loop=SimpleNamespace(ailing=set()))
    machines: list[Any] = [
        SimpleNamespace(name=name, is_damaged=False, world=world) for name in ("b0", "b1")
    ]
    budget = Budget(0)
    budget.set(ack_quorum=2)
    budget.failing.append(machines[0])
    assert budget.allows_errors(machines[1])
    budget.counts_errors = True
    assert not budget.allows_errors(machines[1])
    assert not budget.take(machines[1])
    assert budget.take(machines[0])
    assert budget.allows_errors(machines[0])


@pytest.mark.parametrize(
    ("method", "args"),
    [
        ("read", {"ledger": 7, "first": 0, "last": 9, "fence_key": None, "bytes_max": 100}),
        ("read", {"ledger": 7, "first": 0, "last": 9, "fence_key": b"", "bytes_max": 100}),
        ("read_tail", {"ledger": 7, "fence_key": b"k"}),
        ("wait_tail", {"ledger": 7, "above": -1, "timeout": 30.0}),
        ("sync", {"ledger": 7, "key": b"k", "first": 0, "last": 3}),
        ("list_entries", {"ledger": 7, "first": 0}),
        ("list_entries", {"ledger": 7, "first": 9}),
        ("list_ledgers", {"first": 9}),
        ("outlines", {"ledgers": [7, 3]}),
        ("info", {}),
    ],
)
def test_requests_arrive_as_they_were_sent(method: str, args: dict[str, Any]) -> None:
    assert carry_request(method, "b0", args) == args


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("read", b"run"),
        ("read_tail", LedgerTail(b"frame", None, 3, True)),
        ("wait_tail", LedgerTail()),
        ("sync", [(0, 3), (5, 5)]),
        ("list_entries", []),
        ("list_ledgers", [(0, 3), (5, 5)]),
        ("outlines", [Outline(3, 9, 5), None, NOTHING]),
        ("info", BookieInfo("b0", True, 1, 2, 3)),
    ],
)
def test_answers_arrive_as_they_were_given(method: str, answer: Any) -> None:
    assert carry_answer(method, "b0", answer) == answer


@pytest.mark.parametrize("method", ["read", "read_tail", "sync", "info"])
@pytest.mark.parametrize(
    "error", [LedgerFencedError(7), NoSuchEntryError(7, 3), CorruptEntryError(7, 3, "rotten")]
)
def test_errors_arrive_as_they_were_raised(method: str, error: QuireError) -> None:
    answer = carry_answer(method, "b0", error)
    assert type(answer) is type(error)
    assert str(answer) == str(error)


def test_what_has_no_rule_arrives_as_an_unavailable_bookie() -> None:
    assert isinstance(carry_answer("read", "b0", OSError("EIO")), BookieUnavailableError)
