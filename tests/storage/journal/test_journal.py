"""How the journal groups what is appended. What it makes durable is in test_node.py."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from quire.errors import BookieUnavailableError
from quire.storage.disk.blocks import BLOCK_BYTES
from quire.storage.journal.journal import Journal
from quire.storage.journal.queue import QueuedRecord, encode_batch
from quire.storage.journal.record import RecordKind
from quire.storage.journal.segments import JOURNAL, Segments
from tests.sim.disk import SimDisk, SimFile, SimMount
from tests.storage.scene import BOOKIE, SMALL, drive

STREAMS, ROUNDS = 4, 20


class Batches:
    """Counts the batches of a journal, and says when the first is under way."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.is_begun = asyncio.Event()
        whole = SimFile.write
        batches = self

        async def write(
            self: SimFile, offset: int, data: Sequence[bytes | memoryview], *, sync: bool = False
        ) -> None:
            if offset >= BLOCK_BYTES and self._path.endswith(".spare"):  # opened by that name
                batches.count += any(map(any, data))
                batches.is_begun.set()
            await whole(self, offset, data, sync=sync)

        patch.setattr(SimFile, "write", write)


async def started(disk: SimMount, applied: list[int], fatal: list[BaseException]) -> Journal[int]:
    """Return a journal in its first, empty segment."""
    await disk.make_directory(JOURNAL)
    segments = Segments(disk, BOOKIE, SMALL, random.Random(1), print)
    await segments.load(1)
    journal = Journal[int](
        segments,
        SMALL,
        bookie=BOOKIE,
        apply=applied.extend,
        on_fatal=fatal.append,
        on_idle=lambda: None,
        on_refused=print,
    )
    journal.start(await segments.create(0), 0)
    return journal


@pytest.mark.parametrize(
    ("offset", "reason"),
    [(BLOCK_BYTES + 1, "starts no block"), (SMALL.segment_bytes, "after its segment")],
)
def test_a_batch_at_an_impossible_place_is_not_written(
    offset: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could not be found again, or would overwrite a batch that is durable."""

    async def main() -> None:
        disk = SimDisk(random.Random(1)).mount()
        applied: list[int] = []
        fatal: list[BaseException] = []
        journal = await started(disk, applied, fatal)
        await journal.append(RecordKind.RUN, b"body", 1)

        def encode_elsewhere(
            batch: list[QueuedRecord[int]], identity: int, durable: int, _: int
        ) -> tuple[list[bytes], int]:
            journal._offset = offset
            return encode_batch(batch, identity, durable, offset)

        monkeypatch.setattr("quire.storage.journal.journal.encode_batch", encode_elsewhere)
        with pytest.raises(BookieUnavailableError, match=reason):
            await journal.append(RecordKind.RUN, b"body", 2)
        assert [applied, list(map(type, fatal))] == [[1], [AssertionError]]
        await journal.abort()
        await disk.close()

    drive(main())


def test_those_who_are_answered_share_the_next_batch_with_those_who_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else whoever once came late has a batch, and a sync, of its own for ever."""

    async def main() -> None:
        disk = SimDisk(random.Random(1)).mount()
        applied: list[int] = []
        journal = await started(disk, applied, [])
        batches = Batches(monkeypatch)

        async def stream() -> None:
            for number in range(ROUNDS):
                await journal.append(RecordKind.RUN, b"body", number)

        early = [asyncio.create_task(stream()) for _ in range(STREAMS)]
        await batches.is_begun.wait()
        late = [asyncio.create_task(stream()) for _ in range(STREAMS)]
        await asyncio.gather(*early, *late)
        assert len(applied) == 2 * STREAMS * ROUNDS
        assert batches.count == ROUNDS + 1
        await journal.close()
        await disk.close()

    drive(main())


def test_batches_are_counted_with_the_time_of_their_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        whole = SimFile.write

        async def slowly(
            self: SimFile, offset: int, data: Sequence[bytes | memoryview], *, sync: bool = False
        ) -> None:
            if offset >= BLOCK_BYTES and sync:
                await asyncio.sleep(0.25)
            await whole(self, offset, data, sync=sync)

        disk = SimDisk(random.Random(1)).mount()
        journal = await started(disk, [], [])
        monkeypatch.setattr(SimFile, "write", slowly)
        assert (journal.counts.batches, journal.counts.microseconds) == (0, 0)
        for number in range(3):
            await journal.append(RecordKind.RUN, b"x", number)
        assert journal.counts.batches == 3
        assert 750_000 <= journal.counts.microseconds < 900_000
        await journal.close()

    drive(main())
