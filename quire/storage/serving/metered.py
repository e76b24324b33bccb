"""A bookie and its disk with a meter between them and their users.

Both are ports, so neither the bookie nor its service knows that it is measured. Here are the
figures; how they are shown is metrics.py's.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Sequence
from functools import partial
from time import perf_counter  # uvloop's own clock stands still between two turns of the loop
from typing import Final, NamedTuple, TypeVar

from quire.aio.answer import Answered as Told
from quire.bookie import READ_BYTES_MAX, Bookie, BookieInfo, LedgerTail, Stride
from quire.entry import EntryId, LedgerId
from quire.metrics.figures import Durations
from quire.metrics.meter import OK
from quire.outline import Outline
from quire.storage.disk.port import Disk, DiskSpace, File
from quire.storage.serving.change_waiter import wait_change
from quire.storage.serving.news_counts import NewsCounts
from quire.storage.serving.offered_run import OfferedRun
from quire.storage.serving.refusals import Refusals
from quire.storage.serving.run_taker import RunTaker

T = TypeVar("T")


class Answered(NamedTuple):
    """A request to a bookie, and its outcome: `OK`, or the name of the error."""

    request: str
    outcome: str


class Written(NamedTuple):
    """Where something was written, and whether it was synced in the same step."""

    place: str
    synced: bool


class Meter:
    """Figures since the start. One owner, on one loop."""

    def __init__(self) -> None:
        self.requests: dict[Answered, Durations] = {}
        self.request_bytes: Counter[str] = Counter()
        """By request: bytes of runs that were stored, or read."""
        self.writes: dict[Written, Durations] = {}
        self.written_bytes: Counter[str] = Counter()
        """By place."""
        self.refusals = Refusals()
        self.news = NewsCounts()
        self.loop_lag = 0.0
        """How many seconds later than asked for the loop ran a timer last."""

    def answered(self, request: str, start: float, size: int = 0, outcome: str = OK) -> None:
        """Count a request that began at `start` of `perf_counter`."""
        about = Answered(request, outcome)
        taken = self.requests.get(about)
        if taken is None:
            taken = self.requests[about] = Durations()
        taken.add(perf_counter() - start)
        if size and outcome == OK:
            self.request_bytes[request] += size

    def written(self, place: str, synced: bool, start: float, size: int) -> None:
        """Count a write that began at `start` of `perf_counter`."""
        taken = self.writes.setdefault(Written(place, synced), Durations())
        taken.add(perf_counter() - start)
        self.written_bytes[place] += size


class MeteredBookie:
    """Port 1: another bookie, measured. Requests that were cancelled are not counted."""

    def __init__(self, bookie: Bookie, meter: Meter) -> None:
        self._bookie: Final = bookie
        self._taker: Final = bookie if isinstance(bookie, RunTaker) else None
        self._meter: Final = meter

    def add(
        self,
        ledger: LedgerId,
        key: bytes,
        run: bytes,
        *,
        recovery: bool = False,
        deferred: bool = False,
    ) -> asyncio.Future[None]:
        """See `Bookie.add`."""
        start = perf_counter()
        adding = asyncio.ensure_future(
            self._bookie.add(ledger, key, run, recovery=recovery, deferred=deferred)
        )
        adding.add_done_callback(partial(self._added, start, len(run)))
        return adding

    def take(self, offers: Sequence[OfferedRun], first: int) -> int:
        """See `RunTaker.take`."""
        if self._taker is None:
            return first
        start = perf_counter()
        end = self._taker.take(offers, first)
        for index in range(first, end):
            each = offers[index]
            each.answered = partial(self._took, start, len(each.run), each.answered)
        return end

    def _took(self, start: float, size: int, answered: Told, error: Exception | None) -> None:
        self._meter.answered("add", start, size, _outcome(error))
        answered(error)

    def _added(self, start: float, size: int, adding: asyncio.Future[None]) -> None:
        if not adding.cancelled():
            self._meter.answered("add", start, size, _outcome(adding.exception()))

    async def _measured(self, request: str, asked: Awaitable[T]) -> T:
        start = perf_counter()
        try:
            answer = await asked
        except Exception as error:
            self._meter.answered(request, start, outcome=_outcome(error))
            raise
        size = len(answer) if isinstance(answer, bytes) else 0
        self._meter.answered(request, start, size)
        return answer

    async def read(
        self,
        ledger: LedgerId,
        first: EntryId,
        last: EntryId,
        *,
        fence_key: bytes | None = None,
        bytes_max: int = READ_BYTES_MAX,
        stride: Stride | None = None,
    ) -> bytes:
        """See `Bookie.read`."""
        asked = self._bookie.read(
            ledger, first, last, fence_key=fence_key, bytes_max=bytes_max, stride=stride
        )
        return await self._measured("read" if fence_key is None else "fencing_read", asked)

    async def read_tail(self, ledger: LedgerId, *, fence_key: bytes | None = None) -> LedgerTail:
        """See `Bookie.read_tail`."""
        asked = self._bookie.read_tail(ledger, fence_key=fence_key)
        return await self._measured("read_tail" if fence_key is None else "fencing_tail", asked)

    async def wait_tail(self, ledger: LedgerId, above: EntryId, timeout: float) -> LedgerTail:
        """See `Bookie.wait_tail`."""
        return await self._measured("wait_tail", self._bookie.wait_tail(ledger, above, timeout))

    async def wait_change(self, ledger: LedgerId, above: EntryId, timeout: float) -> None:
        """See `ChangeWaiter.wait_change`. Not measured: the answer is, in `wait_tail`."""
        await wait_change(self._bookie, ledger, above, timeout)

    async def write_lac(self, ledger: LedgerId, key: bytes, packet: bytes) -> None:
        """See `Bookie.write_lac`."""
        await self._measured("write_lac", self._bookie.write_lac(ledger, key, packet))

    async def sync(
        self, ledger: LedgerId, key: bytes, first: EntryId, last: EntryId
    ) -> list[tuple[EntryId, EntryId]]:
        """See `Bookie.sync`."""
        return await self._measured("sync", self._bookie.sync(ledger, key, first, last))

    async def list_entries(
        self, ledger: LedgerId, first: EntryId = 0
    ) -> list[tuple[EntryId, EntryId]]:
        """See `Bookie.list_entries`."""
        return await self._measured("list_entries", self._bookie.list_entries(ledger, first))

    async def list_ledgers(self, first: LedgerId = 0) -> list[tuple[LedgerId, LedgerId]]:
        """See `Bookie.list_ledgers`."""
        return await self._measured("list_ledgers", self._bookie.list_ledgers(first))

    async def outlines(self, ledgers: Sequence[LedgerId]) -> list[Outline | None]:
        """See `Bookie.outlines`."""
        return await self._measured("outlines", self._bookie.outlines(ledgers))

    async def info(self) -> BookieInfo:
        """See `Bookie.info`."""
        return await self._bookie.info()


def _outcome(error: BaseException | None) -> str:
    return OK if error is None else type(error).__name__


class _MeteredFile:
    """An open file with measured writes."""

    def __init__(self, file: File, place: str, meter: Meter) -> None:
        self._file: Final = file
        self._place: Final = place
        self._meter: Final = meter
        self.read = file.read
        self.will_read = file.will_read
        self.truncate = file.truncate
        self.close = file.close

    @property
    def size(self) -> int:
        return self._file.size

    async def write(
        self, offset: int, data: Sequence[bytes | memoryview], *, sync: bool = False
    ) -> None:
        start = perf_counter()
        await self._file.write(offset, data, sync=sync)
        self._meter.written(self._place, sync, start, sum(map(len, data)))

    async def sync(self) -> None:
        start = perf_counter()
        await self._file.sync()
        self._meter.written(self._place, True, start, 0)


class MeteredDisk:
    """Port 3: another disk, its writes measured by the directory they go to."""

    def __init__(self, disk: Disk, meter: Meter) -> None:
        self._disk: Final = disk
        self._meter: Final = meter
        self.list = disk.list
        self.make_directory = disk.make_directory
        self.rename = disk.rename
        self.unlink = disk.unlink
        self.sync_directory = disk.sync_directory
        self.close = disk.close

    async def open(self, path: str, *, create: bool = False) -> File:
        directory, slash, _ = path.partition("/")
        file = await self._disk.open(path, create=create)
        return _MeteredFile(file, directory if slash else "main", self._meter)

    async def space(self, directory: str = "") -> DiskSpace:
        return await self._disk.space(directory)
