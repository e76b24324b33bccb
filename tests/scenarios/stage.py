"""What the commands of a transcript do.

Bookies are production's storage nodes on simulated disks, behind lines that the script controls.
Clients appear when they are first named; each has its own line to the store, its own roster and
catalog. One ledger is in play at a time. A command starts something, then the loop runs until
nothing more happens by itself (a millisecond of virtual time); whatever ended is the output.

Draws are in order, not random: an ensemble is the first bookies, a replacement the first spare.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from quire.bookie import BookieAddress
from quire.entry import DigestKind, EntryId, Sealer, key_check
from quire.errors import QuireError, StoreOutcomeUnknownError, StoreUnavailableError
from quire.ledger.catalog import LedgerCatalog
from quire.ledger.metadata import Fragment, LedgerMetadata
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import Replication
from quire.ledger.reader import LedgerReader
from quire.ledger.roster import BookieRoster
from quire.ledger.writer import LedgerWriter
from quire.metastore.layout import bookie_path, ledger_path
from quire.metastore.memory import MemoryStore, MemoryTree
from quire.metastore.registration import encode_registration
from quire.run import pack_run
from quire.storage.cookie import format_bookie
from quire.storage.node import BookieNode
from quire.storage.options import StorageOptions
from tests.scenarios.links import KINDS, Line, Lines, Rule
from tests.sim.disk import Cut, SimDisk
from tests.support.faulty_store import FaultyStore
from tests.support.writing import fail_next

CLUSTER: Final = "c" * 32
SETTLE_SECONDS: Final = 0.001
PASSWORD: Final = b"secret"
OPTIONS: Final = LedgerOptions(request_timeout=5.0, append_timeout=60.0, lac_idle=0.010)
STORAGE: Final = StorageOptions(
    segment_bytes=64 * 1024, write_cache_bytes=32 * 1024, memory_bytes_max=96 * 1024
)

T = TypeVar("T")
Command = Callable[..., Awaitable[None]]
COMMANDS: list[tuple[re.Pattern[str], Command]] = []


def command(pattern: str) -> Callable[[Command], Command]:
    """Make a method the meaning of the commands that match a pattern."""

    def register(method: Command) -> Command:
        COMMANDS.append((re.compile(pattern), method))
        return method

    return register


class InOrder(random.Random):
    """Draws the first ones."""

    def sample(self, population: Any, k: int, *, counts: Any = None) -> list[Any]:
        return list(population)[:k]


class Client:
    """A process that uses the cluster."""

    def __init__(self, stage: StageBase, name: str) -> None:
        self.name = name
        self.store = FaultyStore(MemoryStore(stage.tree))
        self.gate: asyncio.Event | None = None
        self.roster = BookieRoster(
            self.store, lambda address: Line(stage.lines, name, address.bookie)
        )
        self.options = OPTIONS
        self.catalog: LedgerCatalog
        self.use(OPTIONS)
        self.writer: LedgerWriter | None = None
        self.reader: LedgerReader | None = None

    def use(self, options: LedgerOptions) -> None:
        self.options = options
        self.catalog = LedgerCatalog(
            self.store, self.roster, rng=InOrder(0), clock=lambda: 1.5, options=options
        )

    async def close(self) -> None:
        if self.writer is not None:
            self.writer.abandon()
            await self.writer.close()
        if self.reader is not None:
            await self.reader.close()
        await self.roster.close()
        await self.store.close()


class StageBase:
    """The world and its bookkeeping; the commands are in `Stage`."""

    def __init__(self) -> None:
        self.tree = MemoryTree()
        self.store = MemoryStore(self.tree)
        self.lines = Lines()
        self.disks: dict[str, SimDisk] = {}
        self.nodes: dict[str, BookieNode] = {}
        self.clients: dict[str, Client] = {}
        self.replication = Replication()
        self.digest = DigestKind.CRC32C
        self.ledger = 0
        self._said: list[str] = []
        self._works: dict[asyncio.Task[None], str] = {}

    async def __aenter__(self) -> Self:
        self.session = await self.store.open_session(3600.0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for work in list(self._works):
            work.cancel()
        await asyncio.gather(*self._works, return_exceptions=True)
        for name in sorted(self.clients):
            await self.clients[name].close()
        for name in sorted(self.nodes):
            await self.nodes[name].abort()
        await self.store.close()

    async def play(self, line: str) -> list[str]:
        """Carry out one command and return what happened."""
        for pattern, method in COMMANDS:
            match = pattern.fullmatch(line)
            if match is not None:
                before = dict(self._works)
                try:
                    await method(self, **match.groupdict())
                except QuireError as error:
                    self.say(describe(error))
                await asyncio.sleep(SETTLE_SECONDS)
                waiting = [what for work, what in self._works.items() if work not in before]
                said, self._said = self._said, []
                return said + [f"… {what}" for what in waiting]
        raise AssertionError(f"no such command: {line}")

    def say(self, line: str) -> None:
        self._said.append(line)

    def work(self, what: str, call: Coroutine[Any, Any, str | None]) -> None:
        """Start something that a client waits for; its end is told when it comes."""

        async def run() -> None:
            try:
                result = await call
            except QuireError as error:
                result = f"{what}: {describe(error)}"
            if result:
                self.say(result)

        task = asyncio.get_running_loop().create_task(run())
        self._works[task] = what
        task.add_done_callback(lambda done: self._works.pop(done, None))

    async def client(self, name: str) -> Client:
        if name not in self.clients:
            self.clients[name] = Client(self, name)
            await self.clients[name].roster.start()
        return self.clients[name]

    async def writer(self, name: str) -> LedgerWriter:
        writer = (await self.client(name)).writer
        assert writer is not None, f"{name} has created no ledger"
        return writer

    async def reader(self, name: str) -> LedgerReader:
        reader = (await self.client(name)).reader
        assert reader is not None, f"{name} has opened no ledger"
        return reader

    @property
    def sealer(self) -> Sealer:
        return Sealer(self.ledger, self.digest, PASSWORD)

    async def metadata(self) -> LedgerMetadata:
        record = await self.store.get(ledger_path(self.ledger))
        return LedgerMetadata.decode(ledger_path(self.ledger), record.value)

    async def edit(self, change: Callable[[LedgerMetadata], LedgerMetadata]) -> None:
        path = ledger_path(self.ledger)
        record = await self.store.get(path)
        changed = change(LedgerMetadata.decode(path, record.value))
        await self.store.put(path, changed.encode(), record.version)

    async def boot(self, bookie: str) -> None:
        """Start a bookie's process on its disk."""
        mount = self.disks[bookie].mount()

        def die(error: BaseException) -> None:
            self.lines.processes.pop(bookie, None)
            self.say(f"{bookie} dies")

        try:
            node = await BookieNode.open(
                mount, bookie, CLUSTER, rng=random.Random(0), on_fatal=die, options=STORAGE
            )
        except QuireError:
            await mount.close()
            raise
        self.nodes[bookie] = self.lines.processes[bookie] = node
        self.lines.changed()

    async def halt(self, bookie: str, cut: Cut | None) -> None:
        """End a bookie's process; with a cut, its machine."""
        self.lines.processes.pop(bookie, None)
        disk = self.disks[bookie]
        if cut is None:
            disk.kill()
        else:
            disk.power_cut(cut)
        node = self.nodes.pop(bookie, None)
        if node is not None:
            await node.abort()
        self.lines.changed()


class Stage(StageBase):
    """The commands."""

    # The cluster.

    @command(r"(?P<count>\d+) bookies")
    async def _bookies(self, count: str) -> None:
        for number in range(int(count)):
            bookie = f"b{number}"
            self.disks[bookie] = SimDisk(random.Random(number))
            mount = self.disks[bookie].mount()
            await format_bookie(mount, bookie, CLUSTER)
            await mount.close()
            await self.boot(bookie)
            registration = encode_registration(BookieAddress(bookie, f"{bookie}:1", True))
            await self.session.create(bookie_path(bookie), registration)

    @command(
        r"(?P<bookies>b\d(?: b\d)*|every bookie) (?:is|are) (?P<mode>up|down|hung|mute|held)"
        r"(?: for (?P<what>adds|reads|tails|syncs))?(?: of (?P<who>\w+))?"
    )
    async def _rule(self, bookies: str, mode: str, what: str | None, who: str | None) -> None:
        for bookie in self._named(bookies):
            methods = KINDS[what] if what is not None else None
            self.lines.rule(Rule(bookie, mode, methods, who))

    @command(r"(?P<bookies>b\d(?: b\d)*|every bookie) loses? power")
    async def _power(self, bookies: str) -> None:
        for bookie in self._named(bookies):
            await self.halt(bookie, Cut.LOSES)

    @command(r"(?P<bookies>b\d(?: b\d)*|every bookie) (?:is|are) killed")
    async def _kill(self, bookies: str) -> None:
        for bookie in self._named(bookies):
            await self.halt(bookie, None)

    @command(r"(?P<bookies>b\d(?: b\d)*|every bookie) starts?")
    async def _start(self, bookies: str) -> None:
        for bookie in self._named(bookies):
            if bookie in self.nodes:
                await self.halt(bookie, None)
            try:
                await self.boot(bookie)
            except QuireError as error:
                self.say(f"{bookie} does not start: {describe(error)}")

    @command(r"the disk of (?P<bookie>b\d) is replaced by an empty one")
    async def _wipe(self, bookie: str) -> None:
        self.disks[bookie] = SimDisk(random.Random(99))

    @command(r"the disk of (?P<bookie>b\d) (?P<what>hangs|works again)")
    async def _hang(self, bookie: str, what: str) -> None:
        disk = self.disks[bookie]
        if what == "hangs":
            disk.faults.is_hung = True
        else:
            disk.release()

    @command(r"the next sync of (?P<bookie>b\d) fails")
    async def _fail_sync(self, bookie: str) -> None:
        self.disks[bookie].fail_sync("journal")

    @command(r"(?P<bookie>b\d) flushes")
    async def _flush(self, bookie: str) -> None:
        node = self.nodes.pop(bookie)
        await node.close()
        self.disks[bookie].kill()
        await self.boot(bookie)

    @command(r"a bit flips in the payload of (?P<entry>\d+) on (?P<bookie>b\d)")
    async def _rot(self, entry: str, bookie: str) -> None:
        files = self.disks[bookie].files()
        header = self.sealer.seal(int(entry), -1, 0, b"")[:16]
        found = [(path, at) for path in sorted(files) if (at := files[path].find(header)) >= 0]
        assert found, f"no file of {bookie} holds entry {entry}"
        for path, at in found:
            self.disks[bookie].rot(path, at + 36)

    # The store.

    @command(r"the store (?P<what>is slow for|answers|is away for) (?P<who>\w+)")
    async def _store(self, what: str, who: str) -> None:
        client = await self.client(who)
        if what == "is slow for":
            gate = client.gate = asyncio.Event()
            client.store.before = _holding(gate)
        elif what == "is away for":
            client.store.before = _away
        else:
            client.store.before = _nothing
            if client.gate is not None:
                client.gate.set()

    @command(r"the store loses the next answer to (?P<who>\w+)")
    async def _lose(self, who: str) -> None:
        (await self.client(who)).store.after = fail_next(
            1, StoreOutcomeUnknownError("the record", "the connection was lost")
        )

    @command(r"(?P<bookie>b\d) takes the place of (?P<old>b\d) in fragment (?P<first>\d+)")
    async def _replicate(self, bookie: str, old: str, first: str) -> None:
        def change(metadata: LedgerMetadata) -> LedgerMetadata:
            position = metadata.fragment_of(int(first)).bookies.index(old)
            return metadata.with_replica(int(first), position, bookie)

        await self.edit(change)

    @command(r"somebody closes the ledger at (?P<last>-?\d+) with (?P<length>\d+) bytes")
    async def _close_record(self, last: str, length: str) -> None:
        await self.edit(lambda metadata: metadata.closed(int(last), int(length)))

    @command(r"somebody adds fragment (?P<first>\d+) on (?P<bookies>b\d(?: b\d)*)")
    async def _add_fragment(self, first: str, bookies: str) -> None:
        fragment = Fragment(int(first), tuple(bookies.split()))
        await self.edit(lambda metadata: metadata.with_fragment(fragment))

    # What an old writer left behind.

    @command(r"an old writer left (?P<numbers>\d/\d/\d): (?P<fragments>.+)")
    async def _plant(self, numbers: str, fragments: str) -> None:
        self.replication = Replication(*map(int, numbers.split("/")))
        self.ledger = 7
        parsed = []
        for text in fragments.split(", "):
            first, _, bookies = text.partition(" on ")
            parsed.append(Fragment(int(first), tuple(bookies.split())))
        metadata = LedgerMetadata(
            self.ledger,
            self.replication,
            self.digest,
            key_check(self.sealer.access_key),
            tuple(parsed),
        )
        await self.store.create(ledger_path(self.ledger), metadata.encode())

    @command(
        r"the old writer sends (?P<entries>\d+(?: \d+)*) to (?P<bookies>b\d(?: b\d)*)"
        r"(?:, LAC (?P<lac>-?\d+))?"
    )
    async def _send(self, entries: str, bookies: str, lac: str | None) -> None:
        sealer, known = self.sealer, int(lac or -1)
        run = pack_run(
            sealer.seal(entry, min(known, entry - 1), 2 * (entry + 1), b"e%d" % entry)
            for entry in map(int, entries.split())
        )
        for bookie in bookies.split():
            await self._try(
                f"{bookie} answers the old writer",
                self.nodes[bookie].add(self.ledger, sealer.access_key, run),
            )

    @command(r"(?P<who>\w+) fences (?P<bookie>b\d)(?P<wrong> with a wrong password)?")
    async def _fence(self, who: str, bookie: str, wrong: str | None) -> None:
        password = b"guess" if wrong else PASSWORD
        key = Sealer(self.ledger, self.digest, password).access_key
        line = Line(self.lines, who, bookie)

        async def fence() -> str:
            tail = await line.read_tail(self.ledger, fence_key=key)
            return f"{bookie} is fenced, it holds {'something' if tail.frame else 'nothing'}"

        self.work(f"{who} fences {bookie}", fence())

    # Writing.

    @command(r"(?P<who>\w+) creates (?P<numbers>\d/\d/\d)(?P<traits>( \w[\w-]*)*)")
    async def _create(self, who: str, numbers: str, traits: str) -> None:
        client = await self.client(who)
        self.replication = Replication(*map(int, numbers.split("/")))
        wanted: dict[str, Any] = {trait.replace("-", "_"): True for trait in traits.split()}
        client.writer = await client.catalog.create(
            self.replication, password=PASSWORD, digest=self.digest, **wanted
        )
        self.ledger = client.writer.ledger
        self.say(f"ledger {self.ledger} {shape(client.writer.metadata)}")

    @command(r"(?P<who>\w+) appends (?P<payloads>\w+(?: \w+)*)")
    async def _append(self, who: str, payloads: str) -> None:
        writer = await self.writer(who)

        async def answers() -> str:
            return await self._answers(who, writer, payloads.split(), futures)

        futures = [await writer.submit(payload.encode()) for payload in payloads.split()]
        self.work(f"{who} appends {payloads}", answers())

    async def _answers(
        self,
        who: str,
        writer: LedgerWriter,
        payloads: Sequence[str],
        futures: Sequence[asyncio.Future[EntryId]],
    ) -> str:
        await asyncio.wait(futures)
        errors = [future.exception() for future in futures]
        good = [future.result() for future, error in zip(futures, errors, strict=True) if not error]
        parts = []
        if good:
            what = "confirmed" if writer.last_confirmed >= good[-1] else "only accepted"
            parts.append(f"{' '.join(payloads[: len(good)])} {what} as {spans(good)}")
        failed = sorted({describe(error) for error in errors if error is not None})
        if failed:
            parts.append(f"{' '.join(payloads[len(good) :])} failed: {'; '.join(failed)}")
        return f"{who}: {', '.join(parts)}"

    @command(r"(?P<who>\w+) closes")
    async def _close(self, who: str) -> None:
        writer = await self.writer(who)

        async def close() -> str:
            await writer.close()
            return f"{who} closed the ledger at {writer.last_confirmed}"

        self.work(f"{who} closes", close())

    @command(r"(?P<who>\w+) waits for the end of her time")
    async def _wait_ended(self, who: str) -> None:
        writer = await self.writer(who)

        async def wait() -> str:
            await writer.wait_ended()
            return f"{who} knows that she can append no more"

        self.work(f"{who} waits", wait())

    @command(r"(?P<who>\w+) forces")
    async def _force(self, who: str) -> None:
        writer = await self.writer(who)

        async def force() -> str:
            return f"{who} forced everything up to {await writer.force()}"

        self.work(f"{who} forces", force())

    @command(r"(?P<who>\w+) dies")
    async def _die(self, who: str) -> None:
        (await self.writer(who)).abandon()

    # Reading.

    @command(r"(?P<who>\w+) opens(?P<without> without recovery)?(?P<wrong> with a wrong password)?")
    async def _open(self, who: str, without: str | None, wrong: str | None) -> None:
        client = await self.client(who)
        call = client.catalog.open_without_recovery if without else client.catalog.open
        ledger, password = self.ledger, b"guess" if wrong else PASSWORD

        async def opening() -> str:
            client.reader = await call(ledger, password=password)
            return f"{who} opened it {shape(client.reader.metadata)}"

        self.work(f"{who} opens", opening())

    @command(r"(?P<who>\w+) reads(?: (?P<first>\d+)\.\.(?P<last>\d+))?(?P<risky> unconfirmed)?")
    async def _read(self, who: str, first: str | None, last: str | None, risky: str | None) -> None:
        reader = await self.reader(who)
        start, end = int(first or 0), None if last is None else int(last)

        async def read() -> str:
            if risky:
                assert end is not None
                entries = reader.read_unconfirmed(start, end)
            else:
                entries = reader.read(start, end)
            found = [f"{entry.entry} {entry.payload.decode()}" async for entry in entries]
            return f"{who} read {', '.join(found) or 'nothing'}"

        self.work(f"{who} reads", read())

    @command(r"(?P<who>\w+) asks for LAC")
    async def _lac(self, who: str) -> None:
        reader = await self.reader(who)

        async def ask() -> str:
            return f"{who} is told LAC {await reader.last_confirmed()}"

        self.work(f"{who} asks for LAC", ask())

    @command(r"(?P<who>\w+) follows")
    async def _follow(self, who: str) -> None:
        reader = await self.reader(who)

        async def follow() -> str:
            async for entry in reader.follow():
                self.say(f"{who} sees {entry.entry} {entry.payload.decode()}")
            return f"{who} has seen the end"

        self.work(f"{who} follows", follow())

    @command(r"(?P<who>\w+) deletes the ledger")
    async def _delete(self, who: str) -> None:
        await (await self.client(who)).catalog.delete(self.ledger)

    # Looking.

    @command(r"ledger")
    async def _ledger(self) -> None:
        self.say(shape(await self.metadata()))

    @command(r"copies")
    async def _copies(self) -> None:
        for bookie in sorted(self.lines.processes):
            held = await self.nodes[bookie].list_entries(self.ledger)
            fenced = (await self.nodes[bookie].read_tail(self.ledger)).fenced
            entries = " ".join(f"{a}..{b}" if b > a else str(a) for a, b in held) or "nothing"
            self.say(f"{bookie} {'fenced, ' if fenced else ''}holds {entries}")

    @command(r"(?P<seconds>[\d.]+) s pass")
    async def _pass(self, seconds: str) -> None:
        await asyncio.sleep(float(seconds))

    # Helpers.

    def _named(self, bookies: str) -> list[str]:
        return sorted(self.disks) if bookies == "every bookie" else bookies.split()

    async def _try(self, what: str, call: Awaitable[object]) -> None:
        try:
            await call
        except QuireError as error:
            self.say(f"{what}: {describe(error)}")


def describe(error: BaseException) -> str:
    """Return an error as transcripts show it: which one. Its words may change at any time."""
    return type(error).__name__


def spans(entries: Sequence[EntryId]) -> str:
    """Return consecutive ids as first..last."""
    return f"{entries[0]}..{entries[-1]}" if len(entries) > 1 else str(entries[0])


def shape(metadata: LedgerMetadata) -> str:
    """Return a ledger's state, end and fragments."""
    end = ""
    if metadata.is_closed:
        end = f" at {metadata.last_entry}, {metadata.length} bytes"
    fragments = ", ".join(
        f"{each.first} on {' '.join(each.bookies)}" for each in metadata.fragments
    )
    return f"{metadata.state}{end}: {fragments}"


async def _nothing(method: str, path: str) -> None:
    return None


def _holding(gate: asyncio.Event) -> Callable[[str, str], Awaitable[None]]:
    async def before(method: str, path: str) -> None:
        if method in ("put", "get"):
            await gate.wait()

    return before


async def _away(method: str, path: str) -> None:
    raise StoreUnavailableError("memory:", "by order of the script")
