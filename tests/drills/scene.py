"""What drills share: a cluster of processes, a load, and commands as an operator types them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from quire import connect
from quire.client import Client
from quire.cluster import LocalCluster
from quire.entry import BookieId, LedgerId
from quire.labels import Labels
from quire.ledger.options import LedgerOptions
from quire.ledgers import Replication
from tests.support.command import Finished, quire

REPLICATION: Final = Replication(3, 3, 2)
ENTRIES: Final = 20
"""Entries of a ledger of the load; a real log has more, and rolls as well."""
PAYLOAD_BYTES: Final = 2000
PAUSE_SECONDS: Final = 0.05
WAIT_SECONDS_MAX: Final = 3600.0
"""Nothing takes so long unless it hangs: a drill on a busy machine is slow, and not wrong."""


class DrillError(Exception):
    """A drill did not find what it proves."""


class Proof(NamedTuple):
    """What a drill found."""

    text: str
    bytes: int
    of: str = "acknowledged"
    """What the bytes are: payload that was acknowledged, or entries that bookies copied."""


def check(holds: bool, otherwise: object) -> None:
    """Raise `DrillError` unless something holds."""
    if not holds:
        raise DrillError(str(otherwise))


@dataclass
class Load:
    """Ledgers written one after the other, and what was acknowledged."""

    client: Client
    acked: dict[LedgerId, list[bytes]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    """How long each append took."""
    closed: int = 0
    grown: asyncio.Condition = field(default_factory=asyncio.Condition)
    ends: bool = False

    async def run(self) -> None:
        """Write until `ends`. Any failed append ends the load, and is raised."""
        now = asyncio.get_running_loop().time
        while not self.ends:
            async with await self.client.create_ledger(REPLICATION) as writer:
                mine = self.acked.setdefault(writer.ledger, [])
                while len(mine) < ENTRIES and not self.ends:
                    payload = (b"%d.%d " % (writer.ledger, len(mine))).ljust(PAYLOAD_BYTES, b".")
                    began = now()
                    await writer.append(payload)
                    self.seconds.append(now() - began)
                    mine.append(payload)
                    await asyncio.sleep(PAUSE_SECONDS)
            async with self.grown:
                self.closed += 1
                self.grown.notify_all()

    async def more(self, ledgers: int) -> None:
        """Return when so many ledgers more were closed."""
        wanted = self.closed + ledgers
        async with asyncio.timeout(WAIT_SECONDS_MAX), self.grown:
            await self.grown.wait_for(lambda: self.closed >= wanted)

    @property
    def bytes(self) -> int:
        """The payload that was acknowledged."""
        return sum(len(each) for mine in self.acked.values() for each in mine)

    @property
    def p99(self) -> float:
        """The 99th percentile of the seconds of an append."""
        return sorted(self.seconds)[len(self.seconds) * 99 // 100]


@dataclass
class Scene:
    """A cluster and a client of it."""

    cluster: LocalCluster
    client: Client
    written: int = 0
    """Payload of closed ledgers."""

    def bookie(self, index: int) -> BookieId:
        """Return the id of a bookie."""
        ready = self.cluster.ready(index)
        assert ready is not None
        return ready.bookie

    async def command(self, *arguments: str, code: int | None = 0) -> Finished:
        """Run a command; any other exit code than `code` is a failure, unless it is None."""
        store = self.cluster.store_uri
        done = await asyncio.to_thread(quire, *arguments, store=store, seconds_max=WAIT_SECONDS_MAX)
        said = f"`quire {' '.join(arguments)}` ended with {done.code}: {done.err or done.out}"
        check(code is None or done.code == code, said)
        return done

    async def kill(self, index: int) -> BookieId:
        """Kill a bookie, return its id when it is not registered any more."""
        bookie = self.bookie(index)
        self.cluster.kill(index)
        await self.registered(bookie, wanted=False)
        return bookie

    async def registered(self, *bookies: BookieId, wanted: bool) -> None:
        """Return when all of some bookies are registered, or none of them is."""
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while {each in self._names() for each in bookies} != {wanted}:  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    def _names(self) -> set[BookieId]:
        return {each.bookie for each in self.client.bookies()}

    @asynccontextmanager
    async def load(self) -> AsyncIterator[Load]:
        """Append while the block runs. A failed append is raised at its end."""
        load = Load(self.client)
        async with asyncio.TaskGroup() as group:
            group.create_task(load.run())
            try:
                yield load
            finally:
                load.ends = True

    async def closed_ledgers(
        self, count: int, entries: int = 5, replication: Replication = REPLICATION
    ) -> list[LedgerId]:
        """Write and close some ledgers, many at a time; return their ids."""
        places = asyncio.Semaphore(16)

        async def one() -> LedgerId:
            async with places, await self.client.create_ledger(replication) as writer:
                payloads = [b"%d" % each for each in range(entries)]
                await writer.append_many(payloads)
                self.written += sum(map(len, payloads))
                return writer.ledger

        return await asyncio.gather(*(one() for _ in range(count)))

    async def read_back(self, load: Load) -> None:
        """Read every acknowledged entry; a missing or another one is a failure."""
        for ledger, wanted in sorted(load.acked.items()):
            async with await self.client.open_ledger(ledger) as reader:
                last = reader.info.last_entry
                check(
                    last is not None and last >= len(wanted) - 1,
                    f"ledger {ledger} ends at {last}, and {len(wanted)} entries were acknowledged",
                )
                if wanted:
                    found = [each.payload async for each in reader.read(0, len(wanted) - 1)]
                    check(found == wanted, f"ledger {ledger} holds other entries than were acked")

    async def heal(self, *lost: str) -> None:
        """Run `quire healing run` until it has nothing left to do."""
        options = [each for bookie in lost for each in ("--lost", bookie)]

        async def is_over() -> bool:
            await self.command("healing", "run", *options)
            (result,) = (await self.command("healing", "run", *options, "--json")).json
            return not result["planned"] and not result["open"]

        await self.until(is_over, "healing has an end")

    async def until(self, holds: Callable[[], Awaitable[bool]], what: str) -> None:
        """Ask again and again until something holds; each question is a command, or waits itself.

        Raises `DrillError` when it never does: a busy machine is slow, and not wrong.
        """
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                while not await holds():
                    pass
        except TimeoutError:
            raise DrillError(f"not within {WAIT_SECONDS_MAX:.0f} s: {what}") from None

    async def whole(self) -> int:
        """Return when no ledger is short of copies: how many were, at the first look.

        A bookie that a busy machine kept from answering is only late, and the auditor has copies
        made that a slow bookie missed. A ledger that stays short is a failure.
        """
        counts: list[int] = []

        async def is_whole() -> bool:
            short = await self.command("ledger", "inventory", "--all", "--short", "--json")
            counts.append(len(short.json))
            return not short.json

        await self.until(is_whole, "every ledger has all its copies")
        return counts[0]

    async def copied(self) -> int:
        """Return the bytes of entries that the bookies fetched since their starts."""
        found = [await self.client.bookie_info(each) for each in sorted(self._names())]
        return sum(each.counters["mending_bytes"] for each in found)

    async def state(self, bookie: BookieId, *options: str) -> str:
        """Return the state of a bookie as operators see it."""
        listed = await self.command("bookie", "list", "--all", "--json", *options)
        return str(next(each["state"] for each in listed.json if each["bookie"] == bookie))


@asynccontextmanager
async def scene(
    bookies: int,
    labels: Sequence[Labels] = (),
    options: LedgerOptions | None = None,
    program: Sequence[str] = LocalCluster.program,
) -> AsyncIterator[Scene]:
    """Run a cluster in a temporary directory while the block runs. `options` are the client's,
    `program` is what Python runs as a bookie.
    """
    with tempfile.TemporaryDirectory(prefix="quire-drill-") as directory:
        made = LocalCluster(Path(directory), bookies, labels=labels)
        made.program = program
        async with made as cluster, connect(cluster.store_uri, options=options) as client:
            yield Scene(cluster, client)
