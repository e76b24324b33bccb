"""Messages with runs of many ledgers, taken in one step, beside a bookie that takes each alone."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import pytest

from quire.bookie import Bookie, list_all
from quire.storage.node import BookieNode
from quire.storage.serving.add_stream import AddStream
from quire.storage.serving.limits import Reception, ServiceLimits
from quire.storage.serving.offered_run import OfferedRun
from quire.testing.bookie import MemoryBookie
from quire.wire import bookie_pb2 as pb
from quire.wire.transport import EOF
from tests.storage.scene import BOOKIE, KEY, OTHER_KEY, Scene, drive, run_of, sealed

LEDGERS: Final = (7, 8, 9)
MESSAGES: Final = 6


class _Counting:
    """A node that notes how many runs it takes in one step."""

    def __init__(self, node: BookieNode) -> None:
        self._node = node
        self.taken = Counter[int]()

    def take(self, offers: Sequence[OfferedRun], first: int) -> int:
        end = self._node.take(offers, first)
        self.taken[end - first] += 1
        return end

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)


class _Stream:
    """The bookie's end of a stream: messages one after the other, each answered before the next."""

    def __init__(self, between: Any) -> None:
        self._between = between
        self._sent = 0
        self._settled = asyncio.Event()
        self.failures: dict[int, int] = {}
        self.number = 0

    async def read(self) -> Any:
        while self.number < self._sent:
            self._settled.clear()
            await self._settled.wait()
        message = await self._between()
        if message is None:
            return EOF
        message.first = self._sent + 1
        self._sent += len(message.runs)
        return message

    async def write(self, reply: pb.AddReply) -> None:
        self.failures |= {each.number: each.failure.status for each in reply.failures}
        self.number = reply.settled
        self._settled.set()


def _draw(rng: random.Random, ends: dict[int, int]) -> pb.AddRun:
    """Draw a run: mostly the next of its ledger, else one of an earlier entry, or a wrong one."""
    ledger = rng.choice(LEDGERS)
    end = ends.setdefault(ledger, 0)
    kind = rng.choice(["next"] * 40 + ["again", "other", "key", "ledger", "damaged", "recovery"])
    kind = kind if end else "next"
    if kind == "next":
        count = rng.randint(1, 3)
        ends[ledger] = end + count
        run = run_of(ledger, *range(end, end + count))
        return pb.AddRun(ledger=ledger, key=KEY, run=run)
    entry = rng.randrange(end)
    match kind:
        case "again":
            return pb.AddRun(ledger=ledger, key=KEY, run=run_of(ledger, entry))
        case "other":
            return pb.AddRun(ledger=ledger, key=KEY, run=run_of(ledger, entry, payload=b"other"))
        case "key":
            return pb.AddRun(ledger=ledger, key=OTHER_KEY, run=run_of(ledger, end))
        case "ledger":
            return pb.AddRun(ledger=ledger, key=KEY, run=run_of(ledger + 100, end))
        case "recovery":
            ends[ledger] = end + 1
            return pb.AddRun(ledger=ledger, key=KEY, run=run_of(ledger, end), recovery=True)
        case _:
            return pb.AddRun(ledger=ledger, key=KEY, run=sealed(ledger, end))


async def _play(bookie: Any, seed: int) -> tuple[dict[int, int], dict[int, list[Any]]]:
    """Send the messages of a seed; return the failures by number, and what is held then."""
    rng, ends = random.Random(seed), dict[int, int]()
    left = MESSAGES

    async def between() -> pb.AddRequest | None:
        nonlocal left
        if not left:
            return None
        if left < MESSAGES and rng.random() < 0.2:
            await bookie.read_tail(rng.choice(LEDGERS), fence_key=KEY)
        left -= 1
        runs = [_draw(rng, ends) for _ in range(rng.randint(1, 12))]
        return pb.AddRequest(bookie=BOOKIE, runs=runs)

    stream = _Stream(between)
    limits = ServiceLimits(runs_per_stream=random.Random(-seed).choice([2, 5, 256]))
    await AddStream(Reception(bookie, BOOKIE, limits), stream).serve()
    return stream.failures, {ledger: await _held(bookie, ledger) for ledger in LEDGERS}


async def _held(bookie: Bookie, ledger: int) -> list[Any]:
    ranges = await list_all(partial(bookie.list_entries, ledger))
    return [
        (first, last, await bookie.read(ledger, first, last, bytes_max=1 << 20))
        for first, last in ranges
    ]


@pytest.mark.parametrize("first", range(0, 90, 30))
def test_runs_taken_together_end_as_runs_taken_alone(first: int) -> None:
    taken = Counter[int]()

    async def main(seed: int) -> None:
        scene = Scene(seed)
        counting = _Counting(await scene.start())
        found = await _play(counting, seed)
        assert found == await _play(MemoryBookie(BOOKIE), seed), f"seed {seed}"
        taken.update(counting.taken)
        await scene.close()

    for seed in range(first, first + 30):
        drive(main(seed))
    assert sum(times for count, times in taken.items() if count > 3) > 20, taken
