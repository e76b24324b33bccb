"""Runs that a bookie takes in one step: what decides is looked at for each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from quire.errors import BookieUnavailableError, LedgerFencedError, NoSuchEntryError
from quire.run import scan_run
from quire.storage.entries.subjects import RunSubject, Subject
from quire.storage.node import BookieNode
from quire.storage.serving.add_stream import AddStream
from quire.storage.serving.births import BornBookie, Bound
from quire.storage.serving.limits import Reception
from quire.storage.serving.metered import Meter, MeteredBookie
from quire.storage.serving.obedient import ObedientBookie
from quire.storage.serving.offered_run import OfferedRun
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
    return node.take([_offer(ledger, run_of(ledger, entry), told, key=key)], 0) == 1


def _offer(ledger: int, run: bytes, told: list[object], *, key: bytes = KEY) -> OfferedRun:
    return OfferedRun(0.0, ledger, key, run, False, told.append)


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
        assert not node.take([_offer(7, b"no run", told)], 0)
        assert not node.take([_offer(7, run_of(8, 2), told)], 0), "a run of another ledger"
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
        assert node.take([OfferedRun(0.0, 7, KEY, run_of(7, 1), False, fails)], 0)
        assert _take(node, 7, 2, told)
        await _settle()
        aborting = asyncio.ensure_future(node.abort())
        await _settle()
        scene.disk.release()
        await aborting
        assert [type(each) for each in told] == [BookieUnavailableError] * 2
        assert len(defects) == 1

    drive(main())


def test_runs_of_many_ledgers_are_taken_up_to_the_first_that_is_not() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        for ledger in (7, 8, 9):
            await node.add(ledger, KEY, run_of(ledger, 0))
        await node.read_tail(8, fence_key=KEY)
        told: list[object] = []
        offers = [
            _offer(ledger, run_of(ledger, entry), told)
            for ledger, entry in ((9, 0), (7, 1), (9, 1), (7, 2), (8, 1), (7, 3), (8, 2))
        ]
        assert node.take(offers, 0) == 0, "an entry that is held"
        assert node.take(offers, 1) == 4, "of a fenced ledger"
        assert node.take(offers, 5) == 6
        assert node.take(offers, 7) == 7
        await node.sync(7, KEY, 0, 3)
        assert told == [None] * 4
        for ledger, last in ((7, 3), (9, 1)):
            assert await node.read(ledger, 0, last) == run_of(ledger, *range(last + 1))
        await scene.close()

    drive(main())


def test_of_the_runs_of_one_message_none_overtakes_another_of_its_ledger() -> None:
    """The first run of a ledger waits; those of known ledgers wait with it, and none is lost."""

    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        await node.add(7, KEY, run_of(7, 0))
        order: list[tuple[int, int]] = []
        scene.disk.faults.is_hung = True
        runs = [
            pb.AddRun(ledger=ledger, key=KEY, run=run_of(ledger, entry))
            for ledger, entry in ((7, 1), (8, 0), (8, 1), (7, 2), (8, 2))
        ]
        stream = _Stream(pb.AddRequest(first=1, bookie=BOOKIE, runs=runs))
        journal = node._engine._journal
        apply = journal._apply

        def noting(subjects: list[Subject]) -> None:
            runs = [each.scanned for each in subjects if isinstance(each, RunSubject)]
            order.extend((run.ledger, run.first) for run in runs)
            apply(subjects)

        journal._apply = noting
        serving = asyncio.ensure_future(AddStream(Reception(node, BOOKIE), stream).serve())
        await _settle()
        scene.disk.release()
        await serving
        assert stream.failures == {}
        for ledger in (7, 8):
            assert [entry for each, entry in order if each == ledger] == sorted(
                entry for each, entry in order if each == ledger
            )
            assert await node.read(ledger, 0, 2) == run_of(ledger, 0, 1, 2)
        await scene.close()

    drive(main())


class _Asked:
    """Implements `Births`: the store says what was given out when it is let."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def born_below(self) -> int:
        return await asyncio.shield(self.answer)


class _Ordered:
    """A bookie that takes every run at once, and notes the entries in order."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []

    def add(self, ledger: int, key: bytes, run: bytes, **_: Any) -> asyncio.Future[None]:
        self.entries.append((ledger, scan_run(run).first))  # in this step, as a node does
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    def take(self, offers: Sequence[OfferedRun], first: int) -> int:
        self.entries += [(each.ledger, scan_run(each.run).first) for each in offers[first:]]
        return len(offers)


def test_a_run_whose_id_is_asked_about_holds_up_its_own_ledger_only() -> None:
    async def main() -> None:
        asked, ordered = _Asked(), _Ordered()
        bookie: Any = ordered
        born = BornBookie(bookie, BOOKIE, Bound(asked), lambda ledger: ledger == 7)
        told: list[object] = []
        offers = [_offer(ledger, run_of(ledger, 0), told) for ledger in (7, 9, 7)]
        assert born.take(offers, 0) == 1
        adding = asyncio.ensure_future(born.add(9, KEY, run_of(9, 0)))
        assert born.take(offers, 2) == 3
        asked.answer.set_result(100)
        for _ in range(100):  # in each turn of the loop
            if born.take([_offer(9, run_of(9, 1), told)], 0):
                break
            await asyncio.sleep(0)
        await adding
        assert ordered.entries == [(7, 0), (7, 0), (9, 0), (9, 1)]
        await born.close()

    drive(main())


def test_off_duty_no_run_is_taken_in_one_step() -> None:
    async def main() -> None:
        ordered = _Ordered()
        bookie: Any = ordered
        obedient = ObedientBookie(bookie, BOOKIE, lambda _: True)
        told: list[object] = []
        offers = [_offer(7, run_of(7, entry), told) for entry in (0, 1)]
        assert obedient.take(offers, 0) == 2
        obedient.take_none("away")
        assert obedient.take(offers, 0) == 0
        obedient.take_entries()
        assert obedient.take(offers, 1) == 2

    drive(main())


def test_a_meter_counts_the_runs_that_were_taken() -> None:
    async def main() -> None:
        scene, meter, told = Scene(), Meter(), list[object]()
        node = await scene.start()
        await node.add(7, KEY, run_of(7, 0))
        metered = MeteredBookie(node, meter)
        offers = [
            _offer(ledger, run_of(ledger, entry), told)
            for ledger, entry in ((7, 1), (7, 2), (8, 0))
        ]
        assert metered.take(offers, 0) == 2
        await node.sync(7, KEY, 0, 2)
        assert told == [None, None]
        assert [figures.count for figures in meter.requests.values()] == [2]
        assert meter.request_bytes["add"] == sum(len(each.run) for each in offers[:2])
        await scene.close()

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
