"""Runs that a bookie takes in one step: what decides is looked at for each of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quire.errors import BookieUnavailableError, LedgerFencedError, NoSuchEntryError
from quire.storage.node import BookieNode
from quire.storage.serving.add_stream import AddStream
from quire.storage.serving.limits import Reception
from quire.storage.serving.run_taker import RunTaker
from quire.wire import bookie_pb2 as pb
from quire.wire.transport import EOF
from tests.storage.scene import BOOKIE, KEY, OTHER_KEY, Scene, drive, run_of


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def _take(
    node: BookieNode, ledger: int, entry: int, told: list[object], *, key: bytes = KEY
) -> bool:
    return node.take(ledger, key, run_of(ledger, entry), False, told.append)


def test_a_taken_run_is_answered_when_it_is_durable() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        assert isinstance(node, RunTaker)
        await node.add(7, KEY, run_of(7, 0))
        scene.disk.faults.is_hung = True
        told: list[object] = []
        assert _take(node, 7, 1, told)
        assert _take(node, 7, 2, told)
        await _settle()
        assert told == []
        scene.disk.release()
        await node.sync(7, KEY, 0, 2)
        assert told == [None, None]
        assert await node.read(7, 2, 2) == run_of(7, 2)
        await scene.close()

    drive(main())


def test_a_run_that_waits_or_is_refused_is_not_taken_and_leaves_no_trace() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        await node.add(7, KEY, run_of(7, 0, 1))
        told: list[object] = []
        assert not _take(node, 8, 0, told), "the first of its ledger"
        assert not _take(node, 7, 2, told, key=OTHER_KEY), "another key"
        assert not _take(node, 7, 1, told), "an entry that is held"
        assert not node.take(7, KEY, b"no run", False, told.append)
        assert not node.take(7, KEY, run_of(8, 2), False, told.append), "a run of another ledger"
        await _settle()
        assert told == []
        with pytest.raises(NoSuchEntryError):
            await node.read(7, 2, 2)
        await scene.close()

    drive(main())


def test_an_accepted_fence_keeps_later_runs_of_its_ledger_out_and_no_others() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        await node.add(7, KEY, run_of(7, 0))
        await node.add(8, KEY, run_of(8, 0))
        scene.disk.faults.is_hung = True
        told: list[object] = []
        assert _take(node, 7, 1, told)
        fencing = asyncio.ensure_future(node.read_tail(7, fence_key=KEY))
        await _settle()
        assert not _take(node, 7, 2, told)
        assert _take(node, 8, 1, told)
        scene.disk.release()
        await fencing
        await node.sync(8, KEY, 0, 1)
        assert told == [None, None]
        assert not _take(node, 7, 2, told)
        await scene.close()

    drive(main())


def test_no_run_overtakes_one_that_waits() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        await node.add(7, KEY, run_of(7, 0))
        scene.disk.faults.is_hung = True
        waits = node.add(7, KEY, run_of(7, 0), deferred=False)  # compared with the copy held
        told: list[object] = []
        assert not _take(node, 7, 1, told)
        scene.disk.release()
        await waits
        assert _take(node, 7, 1, told)
        await node.sync(7, KEY, 0, 1)
        assert told == [None]
        await scene.close()

    drive(main())


def test_taken_runs_are_told_of_the_end_of_the_journal() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        await node.add(7, KEY, run_of(7, 0))
        scene.disk.faults.is_hung = True
        told: list[object] = []

        def fails(error: Exception | None) -> None:
            told.append(error)
            raise RuntimeError("a defect of the one that is told")

        defects: list[dict[str, Any]] = []
        asyncio.get_running_loop().call_exception_handler = defects.append  # type: ignore
        assert node.take(7, KEY, run_of(7, 1), False, fails)
        assert _take(node, 7, 2, told)
        await _settle()
        aborting = asyncio.ensure_future(node.abort())
        await _settle()
        scene.disk.release()
        await aborting
        assert [type(each) for each in told] == [BookieUnavailableError] * 2
        assert len(defects) == 1

    drive(main())


class _Stream:
    """The bookie's end of a stream: one message, then answers until all runs have one."""

    def __init__(self, request: pb.AddRequest) -> None:
        self._requests = [request]
        self._last = len(request.runs)
        self._answered = asyncio.Event()
        self.failures: dict[int, int] = {}

    async def read(self) -> Any:
        if self._requests:
            return self._requests.pop()
        await self._answered.wait()
        return EOF

    async def write(self, reply: pb.AddReply) -> None:
        self.failures |= {each.number: each.failure.status for each in reply.failures}
        if reply.settled == self._last:
            self._answered.set()


def test_a_refused_run_of_one_ledger_fails_by_its_number_and_no_other() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        for ledger in (7, 8, 9):
            await node.add(ledger, KEY, run_of(ledger, 0))
        await node.read_tail(8, fence_key=KEY)
        runs = [
            pb.AddRun(ledger=ledger, key=KEY, run=run_of(ledger, entry))
            for entry in (1, 2)
            for ledger in (7, 8, 9)
        ]
        stream = _Stream(pb.AddRequest(first=1, bookie=BOOKIE, runs=runs))
        await AddStream(Reception(node, BOOKIE), stream).serve()
        assert stream.failures == {2: pb.FENCED, 5: pb.FENCED}
        for ledger in (7, 9):
            assert await node.read(ledger, 1, 2) == run_of(ledger, 1, 2)
        with pytest.raises(LedgerFencedError):
            await node.add(8, KEY, run_of(8, 1))
        await scene.close()

    drive(main())
