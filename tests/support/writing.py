"""One ledger writer over reference bookies that can be made to fail, and a trace of who did what.

`Writing` is an async context manager. Bookies are called a, b, c …; those beyond the ensemble are
spares. `trace` has a line for each metadata change that was applied and each run that a bookie
took.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

from quire.bookie import Bookie
from quire.entry import BookieId, DigestKind, EntryId, LedgerId, Sealer, key_check
from quire.errors import BookieUnavailableError
from quire.labels import NOWHERE, Labels
from quire.ledger.domains import Candidate
from quire.ledger.ledger_record import LedgerRecord
from quire.ledger.metadata import Fragment, LedgerMetadata
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import Replication
from quire.ledger.stored_records import StoredRecords
from quire.ledger.writer import LedgerWriter
from quire.metastore.layout import ledger_path
from quire.metastore.memory import MemoryStore
from quire.run import split_run
from quire.testing.bookie import MemoryBookie
from tests.support.faulty_store import FaultyStore

LEDGER = 7
PATH = ledger_path(LEDGER)


class TracedBookie(MemoryBookie):
    """A reference bookie that tells when it is sent a run and when it took one."""

    def __init__(self, bookie: BookieId, trace: list[str]) -> None:
        super().__init__(bookie)
        self.trace = trace
        self.sent: list[tuple[EntryId, ...]] = []
        """The entries of each run it was sent, whether or not it took them."""

    async def add(
        self,
        ledger: LedgerId,
        key: bytes,
        run: bytes,
        *,
        recovery: bool = False,
        deferred: bool = False,
    ) -> None:
        entries = tuple(entry for entry, _ in split_run(run))
        self.sent.append(entries)
        await super().add(ledger, key, run, recovery=recovery, deferred=deferred)
        self.trace.append(f"{self.bookie} took {entries[0]}..{entries[-1]}")

    def held(self) -> list[EntryId]:
        """Return the entries it holds of the ledger."""
        return sorted(self.look(LEDGER).frames)

    @property
    def told(self) -> EntryId:
        """The highest LAC it was told by itself."""
        return self.look(LEDGER).packet_lac

    def fail(self) -> None:
        """Fail every request from now on."""

        async def before(method: str, ledger: LedgerId) -> None:
            raise BookieUnavailableError(self.bookie, "by order of the test")

        self.before = before

    def fail_with(self, error: Exception) -> None:
        """Fail every request from now on with this error."""

        async def before(method: str, ledger: LedgerId) -> None:
            raise error

        self.before = before

    def hold(self) -> asyncio.Event:
        """Keep every add waiting until the event returned is set."""
        gate = asyncio.Event()

        async def before(method: str, ledger: LedgerId) -> None:
            if method == "add":
                await gate.wait()

        self.before = before
        return gate

    def hold_syncs(self) -> None:
        """Never answer a sync."""

        async def before(method: str, ledger: LedgerId) -> None:
            if method == "sync":
                await asyncio.Event().wait()

        self.before = before

    def heal(self) -> None:
        """Answer again."""

        async def before(method: str, ledger: LedgerId) -> None:
            return None

        self.before = before


class FakeRoster:
    """The bookies there are; `spares` can be emptied and refilled."""

    def __init__(self, bookies: dict[BookieId, TracedBookie]) -> None:
        self.bookies = bookies
        self.hidden: set[BookieId] = set()

    def writable(self) -> list[BookieId]:
        return sorted(each for each in self.bookies if each not in self.hidden)

    def candidates(self) -> list[Candidate]:
        return [Candidate(bookie, self.labels(bookie)) for bookie in self.writable()]

    def labels(self, bookie: str) -> Labels:
        return NOWHERE

    def places(self) -> list[Labels]:
        return []

    def bookie(self, bookie: BookieId) -> Bookie:
        if bookie not in self.bookies:
            raise BookieUnavailableError(bookie, "never seen")
        return self.bookies[bookie]


class Writing:
    """A writer, its bookies, its store."""

    deferred_sync = False

    def __init__(
        self,
        replication: Replication | None = None,
        *,
        bookies: int = 4,
        seed: int = 0,
        **options: Any,
    ) -> None:
        self.replication = replication or Replication(3, 3, 2)
        self.trace: list[str] = []
        names = [chr(ord("a") + number) for number in range(bookies)]
        self.bookies = {name: TracedBookie(name, self.trace) for name in names}
        self.roster = FakeRoster(self.bookies)
        self.inner_store = MemoryStore()
        self.store = FaultyStore(self.inner_store)
        self.sealer = Sealer(LEDGER, DigestKind.CRC32C, b"secret")
        self.options = LedgerOptions(**options)
        self.seed = seed
        self.writer: LedgerWriter

    async def __aenter__(self) -> Self:
        metadata = LedgerMetadata(
            LEDGER,
            self.replication,
            self.sealer.kind,
            key_check(self.sealer.access_key),
            (Fragment(0, tuple(self.bookies)[: self.replication.ensemble]),),
        )
        version = await self.store.create(PATH, metadata.encode())
        self.writer = LedgerWriter(
            LedgerRecord(StoredRecords(self.store, random.Random(self.seed)), metadata, version),
            self.roster,
            self.sealer,
            self.options,
            random.Random(self.seed),
            deferred_sync=self.deferred_sync,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.writer.abandon()
        await self.writer.close()
        await self.inner_store.close()

    async def metadata(self) -> LedgerMetadata:
        """Return what the store really has."""
        return LedgerMetadata.decode(PATH, (await self.inner_store.get(PATH)).value)

    async def edit(self, change: Callable[[LedgerMetadata], LedgerMetadata]) -> None:
        """Change the record behind the writer's back."""
        record = await self.inner_store.get(PATH)
        changed = change(LedgerMetadata.decode(PATH, record.value))
        await self.inner_store.put(PATH, changed.encode(), record.version)

    def trace_changes(self) -> None:
        """Write applied metadata changes into the trace."""

        async def after(method: str, path: str) -> None:
            if method == "put":
                self.trace.append("metadata changed")

        self.store.after = after

    def hold_changes(self) -> asyncio.Event:
        """Keep metadata changes from being carried out until the event returned is set."""
        gate = asyncio.Event()

        async def before(method: str, path: str) -> None:
            if method == "put":
                await gate.wait()

        self.store.before = before
        return gate

    def entries(self, count: int, first: int = 0) -> list[asyncio.Task[EntryId]]:
        """Append entries whose payload is their number, each by a task of its own."""
        return [
            asyncio.get_running_loop().create_task(self.writer.append(b"%d" % number))
            for number in range(first, first + count)
        ]


async def settle(seconds: float = 0.001) -> None:
    """Let everything happen that needs no more than this of virtual time."""
    await asyncio.sleep(seconds)


def fail_next(times: int, error: Exception) -> Callable[[str, str], Awaitable[None]]:
    """A store hook that fails the next metadata changes."""
    left = [times]

    async def hook(method: str, path: str) -> None:
        if method == "put" and left[0] > 0:
            left[0] -= 1
            raise error

    return hook
