"""The interoperability runs: each ends with both clients reading one ledger, and the same in it."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from unittest.mock import patch

from quire.bookkeeper import single_reads, wire2
from quire.client import Client
from quire.entry import ENTRY_BYTES_MAX, DigestKind
from quire.errors import LedgerFencedError, OutcomeUnknownError, UnauthorizedError
from quire.ledger.writer import LedgerWriter
from tests.interop.servers import ApacheServers, JavaClient, JavaError

JAVA_NAMES = {
    DigestKind.CRC32C: "CRC32C",
    DigestKind.CRC32: "CRC32",
    DigestKind.HMAC_SHA1: "MAC",
    DigestKind.NONE: "DUMMY",
}
COUNT = 40
MANY = 500
QUORUM = 3
"""Bookies of an ensemble."""


@dataclass
class Scene:
    """Both clients of one cluster, and the digest and password of a run's ledgers."""

    servers: ApacheServers
    client: Client
    java: JavaClient
    digest: DigestKind
    password: str
    rng: random.Random
    protocol: str

    @property
    def secret(self) -> bytes:
        return self.password.encode()

    async def ask(self, *words: object) -> str:
        return await asyncio.to_thread(self.java.ask, *words)

    async def of(self, command: str, ledger: int) -> str:
        return await self.ask(command, ledger, JAVA_NAMES[self.digest], self.password)

    async def java_creates(self) -> int:
        return int(await self.ask("create", JAVA_NAMES[self.digest], self.password))

    async def quire_creates(self, *, deferred_sync: bool = False) -> LedgerWriter:
        return await self.client.create_ledger(
            password=self.secret, digest=self.digest, deferred_sync=deferred_sync
        )

    async def judge(self, ledger: int, acknowledged: list[bytes]) -> int:
        """Compare what both clients read of a closed ledger; the number of its entries."""
        reader = await self.client.open_ledger(ledger, password=self.secret)
        found = [entry.payload async for entry in reader.read(0, None)]
        javas = await self.of("read", ledger)
        assert javas == f"{len(found)} {digest_of(found)}", (
            f"ledger {ledger}: {javas}, not {len(found)}"
        )
        assert found[: len(acknowledged)] == acknowledged, f"ledger {ledger} lost an entry"
        return len(found)


def digest_of(found: list[bytes]) -> str:
    """Return what Java's client says of entries, after their number."""
    return hashlib.sha256(b"".join(each + b"\n" for each in found)).hexdigest()


def payloads(name: str, count: int) -> list[bytes]:
    return [f"{name}-{number}".encode() for number in range(count)]


async def java_writes_quire_follows(scene: Scene) -> None:
    ledger = await scene.java_creates()
    await scene.ask("add", COUNT)
    reader = await scene.client.open_ledger_without_recovery(ledger, password=scene.secret)

    async def follow() -> list[bytes]:
        return [entry.payload async for entry in reader.follow(0)]

    following = asyncio.create_task(follow())
    await scene.ask("add", COUNT)
    await scene.ask("close")
    assert await following == payloads("java", 2 * COUNT)
    await scene.judge(ledger, payloads("java", 2 * COUNT))
    if scene.password:
        try:
            await scene.client.open_ledger(ledger, password=b"guess")
        except UnauthorizedError:
            return
        raise AssertionError("a wrong password was taken")


async def quire_fences_java(scene: Scene) -> None:
    ledger = await scene.java_creates()
    await scene.ask("add", COUNT)
    await scene.client.open_ledger(ledger, password=scene.secret)
    try:
        await scene.ask("add", 1)
    except JavaError:
        pass
    else:
        raise AssertionError("Java wrote to a ledger that was fenced")
    assert await scene.judge(ledger, payloads("java", COUNT)) == COUNT


async def quire_writes_java_reads(scene: Scene) -> None:
    writer = await scene.quire_creates()
    wanted = payloads("quire", COUNT)
    await writer.append_many(wanted[:-1])
    await writer.append(wanted[-1])  # carries the LAC of the entries before it
    # Java's client of the second protocol does not ask for explicit LACs.
    behind = 1 if scene.protocol == "v3" else 2
    for _ in range(600):  # the explicit LAC comes a moment after its entry
        if int(await scene.of("confirmed", writer.ledger)) >= COUNT - behind:
            break
        await asyncio.sleep(0.1)
    count, digest = (await scene.of("read", writer.ledger)).split()
    assert int(count) > COUNT - behind, "Java reads an open ledger up to its LAC"
    assert digest == digest_of(wanted[: int(count)])
    await writer.close()
    assert await scene.judge(writer.ledger, wanted) == COUNT
    assert int(await scene.of("length", writer.ledger)) == sum(map(len, wanted))


async def java_fences_quire(scene: Scene) -> None:
    writer = await scene.quire_creates()
    wanted = payloads("quire", COUNT)
    await writer.append_many(wanted)
    assert int(await scene.of("recover", writer.ledger)) == COUNT - 1
    try:
        await writer.append(b"late")
    except (LedgerFencedError, OutcomeUnknownError):
        pass
    else:
        raise AssertionError("quire wrote to a ledger that Java had recovered")
    assert await scene.judge(writer.ledger, wanted) == COUNT


async def deferred_entries_are_forced(scene: Scene) -> None:
    writer = await scene.quire_creates(deferred_sync=True)
    wanted = payloads("quire", COUNT)
    await writer.append_many(wanted)
    await writer.force()
    await writer.close()
    assert await scene.judge(writer.ledger, wanted) == COUNT


async def large_entries_travel_whole(scene: Scene) -> None:
    """Each writes one of the largest size that quire takes, and both read both."""
    large = b"x" * ENTRY_BYTES_MAX
    ledger = await scene.java_creates()
    await scene.ask("large", len(large))
    await scene.ask("close")
    assert await scene.judge(ledger, [large]) == 1
    writer = await scene.quire_creates()
    await writer.append(large)
    await writer.close()
    assert await scene.judge(writer.ledger, [large]) == 1


async def a_log_is_led_twice(scene: Scene) -> None:
    name = f"orders-{scene.rng.getrandbits(32)}"
    for turn in range(2):
        async with await scene.client.open_log(name) as log:
            for number in range(COUNT):
                await log.append(b"%d" % (turn * COUNT + number))
    found = [record.payload async for record in scene.client.read_log(name)]
    assert found == [b"%d" % number for number in range(2 * COUNT)]


async def deleted_ledgers_are_gone_for_both(scene: Scene) -> None:
    writer = await scene.quire_creates()
    await writer.append(b"one")
    await writer.close()
    await scene.client.delete_ledger(writer.ledger)
    try:
        await scene.of("read", writer.ledger)
    except JavaError:
        return
    raise AssertionError("Java reads a ledger that was deleted")


async def closed_ledgers_are_read_by_batches(scene: Scene) -> None:
    """From bookies that know batches, and from others entry by entry."""
    ledger = await scene.java_creates()
    await scene.ask("add", MANY)
    await scene.ask("close")
    reader = await scene.client.open_ledger(ledger, password=scene.secret)
    knows = {scene.servers.knows_batches(each) for each in scene.servers.bookies}
    for first in range(2 * QUORUM):  # each bookie is asked at first, and then again
        with (
            patch.object(wire2, "batch_read", wraps=wire2.batch_read) as batches,
            patch.object(single_reads, "readings", wraps=single_reads.readings) as singles,
        ):
            found = [entry.payload async for entry in reader.read(first, None)]
        assert found == payloads("java", MANY)[first:]
        if knows == {True}:
            assert batches.called
            assert not singles.called, "single entries were read"
        if knows == {False}:
            assert singles.called, "a batch came from a bookie that knows none"
            assert first < QUORUM or not batches.called, "a bookie was asked twice for batches"


RUNS: dict[str, Callable[[Scene], Awaitable[None]]] = {
    each.__name__: each
    for each in (
        java_writes_quire_follows,
        quire_fences_java,
        quire_writes_java_reads,
        java_fences_quire,
        deferred_entries_are_forced,
        large_entries_travel_whole,
        a_log_is_led_twice,
        deleted_ledgers_are_gone_for_both,
        closed_ledgers_are_read_by_batches,
    )
}


async def all_writable(servers: ApacheServers, client: Client) -> None:
    """Wait until every bookie is registered; one that was stopped for longer than its session of
    ZooKeeper may not come back by itself, and is restarted, after a longer time each time. The
    caller's limit of time ends it.
    """

    def missing() -> set[str]:
        writable = {each.bookie for each in client.bookies() if each.writable}
        return set(servers.bookies) - writable

    patience = 150
    while True:
        for _ in range(patience):
            if not missing():
                return
            await asyncio.sleep(0.1)
        patience *= 2
        for bookie in sorted(missing()):
            print(f"  {bookie} is restarted: it did not register again", flush=True)
            await asyncio.to_thread(servers.kill, bookie)
            await asyncio.to_thread(servers.start, bookie)
