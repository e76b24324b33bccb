"""Requests under way wait for the disk, for news or for room, and end in order or all at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from quire.bookie import LedgerTail
from quire.entry import DigestKind, Sealer
from quire.errors import (
    BookieBusyError,
    BookieUnavailableError,
    InvalidRequestError,
    LedgerFencedError,
    NoSuchEntryError,
    NoSuchLedgerError,
    UnauthorizedError,
)
from quire.storage.node import BookieNode
from tests.storage.scene import KEY, OTHER_KEY, Scene, drive, eventually, run_of


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_refusal_for_a_key_waits_until_the_key_is_durable() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        scene.disk.faults.is_hung = True
        adding = asyncio.ensure_future(node.add(7, KEY, run_of(7, 0)))
        refused = asyncio.ensure_future(node.add(7, OTHER_KEY, run_of(7, 1)))
        await _settle()
        assert not refused.done()
        scene.disk.release()
        await adding
        with pytest.raises(UnauthorizedError):
            await refused
        await scene.close()

    drive(main())


def test_an_add_does_not_queue_behind_one_that_only_the_disk_keeps() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        await node.add(7, KEY, run_of(7, 0))
        scene.disk.faults.is_hung = True
        first_of_another = asyncio.ensure_future(node.add(8, KEY, run_of(8, 0)))
        await _settle()
        node.add(7, KEY, run_of(7, 1)).cancel()  # too late: it is in the journal's queue
        scene.disk.release()
        await first_of_another
        await node.sync(7, KEY, 0, 1)
        assert await node.read(7, 1, 1) == run_of(7, 1)
        await scene.close()

    drive(main())


async def _fence_by_read(node: BookieNode) -> object:
    try:
        return await node.read(7, 0, 0, fence_key=KEY)
    except (NoSuchEntryError, NoSuchLedgerError) as error:
        return error


async def _fence_by_tail(node: BookieNode) -> object:
    return await node.read_tail(7, fence_key=KEY)


@pytest.mark.parametrize("fence", [_fence_by_read, _fence_by_tail])
@pytest.mark.parametrize("is_empty", [True, False])
def test_no_answer_to_a_fence_leaves_before_it_is_durable(fence: object, is_empty: bool) -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        if not is_empty:
            await node.add(7, KEY, run_of(7, 3))
        scene.disk.faults.is_hung = True
        asked = [asyncio.ensure_future(fence(node)) for _ in range(2)]  # type: ignore[operator]
        await _settle()
        late = asyncio.ensure_future(node.add(7, KEY, run_of(7, 4)))
        tail = asyncio.ensure_future(node.wait_tail(7, 10, 1000.0))
        await _settle()
        assert not any(task.done() for task in (*asked, late, tail))
        scene.disk.release()
        await asyncio.gather(*asked)
        with pytest.raises(LedgerFencedError):
            await late
        assert (await tail).fenced
        await scene.close()

    drive(main())


def test_a_fencing_read_sees_the_adds_accepted_before_it() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        scene.disk.faults.is_hung = True
        adding = asyncio.ensure_future(node.add(7, KEY, run_of(7, 0)))
        await _settle()
        fencing = asyncio.ensure_future(node.read(7, 0, 0, fence_key=KEY))
        plain = asyncio.ensure_future(node.read(7, 0, 0))
        with pytest.raises(NoSuchEntryError):
            await plain
        scene.disk.release()
        assert await fencing == run_of(7, 0)
        await adding
        await scene.close()

    drive(main())


def test_waiting_for_the_tail() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()

        async def woken_by(change: Callable[[], Awaitable[object]], above: int) -> LedgerTail:
            waiting = asyncio.ensure_future(node.wait_tail(7, above, 1000.0))
            await _settle()
            assert not waiting.done()
            await change()
            return await waiting

        tail = await woken_by(lambda: node.add(7, KEY, run_of(7, 3)), 1)
        assert tail.hint == 2
        packet = Sealer(7, DigestKind.CRC32C, b"").seal_lac(3)
        tail = await woken_by(lambda: node.write_lac(7, KEY, packet), 2)
        assert tail.lac_packet == packet
        tail = await woken_by(lambda: node.read_tail(7, fence_key=KEY), 3)
        assert tail.fenced
        assert (await node.wait_tail(7, 100, 1000.0)).fenced
        assert await node.wait_tail(9, 0, 0.0) == LedgerTail()
        assert (await node.info()).ledgers == 1
        await scene.close()

    drive(main())


def test_waiting_ends_with_the_bookie() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        waiting = asyncio.ensure_future(node.wait_tail(7, 0, 1000.0))
        await _settle()
        await scene.close()
        with pytest.raises(BookieUnavailableError):
            await waiting
        with pytest.raises(BookieUnavailableError):
            await node.add(7, KEY, run_of(7, 0))
        with pytest.raises(BookieUnavailableError):
            await node.read(7, 0, 0)

    drive(main())


def test_runs_side_by_side_are_acknowledged_in_order() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        order: list[int] = []

        async def add(entry: int) -> None:
            await node.add(7, KEY, run_of(7, entry))
            order.append(entry)

        before = scene.disk.changes
        await asyncio.gather(*(add(entry) for entry in range(50)))
        assert order == list(range(50))
        assert scene.disk.changes - before < 10, "fifty adds took fifty syncs"
        await scene.close()

    drive(main())


def test_a_cancelled_add_is_stored_or_not_and_harms_nobody() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        scene.disk.faults.is_hung = True
        adding = [asyncio.ensure_future(node.add(7, KEY, run_of(7, entry))) for entry in range(3)]
        await _settle()
        adding[1].cancel()
        await _settle()
        scene.disk.release()
        await asyncio.gather(adding[0], adding[2])
        assert await node.list_entries(7) == [(0, 2)]
        await scene.close()

    drive(main())


def test_a_failed_sync_fails_everybody_and_ends_the_process() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        await node.add(7, KEY, run_of(7, 0))
        await eventually(lambda: len(node._engine._segments.live) == 2)
        await _settle()
        scene.disk.fail_sync("journal")
        adding = [asyncio.ensure_future(node.add(7, KEY, run_of(7, entry))) for entry in (1, 2)]
        fencing = asyncio.ensure_future(node.read_tail(7, fence_key=KEY))
        outcomes = await asyncio.gather(*adding, fencing, return_exceptions=True)
        assert all(isinstance(outcome, BookieUnavailableError) for outcome in outcomes)
        assert len(scene.fatal) == 1
        for request in (node.add(7, KEY, run_of(7, 3)), node.read_tail(7), node.info()):
            with pytest.raises(BookieUnavailableError):
                await request
        await scene.cut()
        await scene.start()
        assert 0 in await scene.entries(7)
        await scene.close()

    drive(main())


def test_memory_is_bounded() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        scene.disk.faults.is_hung = True
        adding = [
            asyncio.ensure_future(node.add(7, KEY, run_of(7, entry, payload=bytes(4000))))
            for entry in range(100)
        ]
        await _settle()
        refused = [task for task in adding if task.done()]
        assert refused
        for task in refused:
            assert isinstance(task.exception(), BookieBusyError)
        scene.disk.release()
        stored = [entry for entry, task in enumerate(adding) if task not in refused]
        await asyncio.gather(*(adding[entry] for entry in stored))
        assert len(stored) == len(range(stored[0], stored[-1] + 1))
        assert list(await scene.entries(7)) == stored
        await scene.close()

    drive(main())


def test_whoever_names_ledgers_and_leaves_nothing_leaves_nothing() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        for ledger in range(100, 120):
            sealer = Sealer(ledger, DigestKind.CRC32C, b"")
            with pytest.raises(InvalidRequestError):
                await node.write_lac(ledger, KEY, b"garbage")
            await node.write_lac(ledger, KEY, sealer.seal_lac(-1))
            with pytest.raises(InvalidRequestError):
                await node.add(ledger, b"k" * 65, run_of(ledger, 0))
            assert not node._storage.states
            await node.sync(ledger, KEY, 0, 9)
            await node.wait_tail(ledger, 0, 0.0)
        assert not node._storage.states
        waiting = asyncio.ensure_future(node.wait_tail(99, -1, 1000.0))
        await _settle()
        await node.write_lac(99, KEY, Sealer(99, DigestKind.CRC32C, b"").seal_lac(-1))
        await node.add(99, KEY, run_of(99, 0, 1))
        assert (await waiting).hint == 0
        await scene.close()

    drive(main())
