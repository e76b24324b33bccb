"""Commands about bookies, disks and the store, about what an old writer left, and for looking."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from quire.bookie import BookieAddress
from quire.entry import Sealer, key_check
from quire.errors import QuireError, StoreOutcomeUnknownError, StoreUnavailableError
from quire.ledger.metadata import Fragment, LedgerMetadata
from quire.ledger.quorum import Replication
from quire.metastore.layout import bookie_path, ledger_path
from quire.metastore.registration import encode_registration
from quire.run import pack_run
from quire.storage.identity.cookie import format_bookie
from tests.scenarios.links import KINDS, Line, Rule
from tests.scenarios.world import CLUSTER, PASSWORD, StageBase, command, describe, shape
from tests.sim.disk import Cut, SimDisk
from tests.support.writing import fail_next


class ClusterCommands(StageBase):
    """What happens around the clients."""

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


async def _nothing(method: str, path: str) -> None:
    return None


def _holding(gate: asyncio.Event) -> Callable[[str, str], Awaitable[None]]:
    async def before(method: str, path: str) -> None:
        if method in ("put", "get"):
            await gate.wait()

    return before


async def _away(method: str, path: str) -> None:
    raise StoreUnavailableError("memory:", "by order of the script")
