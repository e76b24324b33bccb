"""The drills. Each plays one case on processes of its own, and returns what it proved.

The first line of each docstring is what an operator relies on. Numbers are those of the checks
in docs/drills.md.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from quire.errors import AppendOutcomeUnknownError, NotEnoughDomainsError
from quire.labels import Labels
from quire.ledger.domains import Placement
from quire.ledger.options import LedgerOptions
from quire.ledgers import Replication
from quire.metastore import open_store
from quire.repair.healing import open_healing
from tests.drills.auditor_drills import away, crowded, paused, returned, silenced, spread, voided
from tests.drills.program_drills import looked, probed, upgraded
from tests.drills.scene import REPLICATION, DrillError, Proof, Scene, check, scene
from tests.drills.store_drills import deposed, restored
from tests.support.command import started

LEDGERS: Final = 300
RACKS: Final = [Labels(rack=f"r{number}") for number in range(3)]
REGIONS: Final = [Labels(region=f"r{number}") for number in range(3)]
TWO_REGIONS: Final = Placement.parse("durable=region:2")
HOSTS: Final = [Labels(host=f"h{number}") for number in range(3)]


async def lost() -> Proof:
    """A bookie is killed and its disk is deleted under load: all copies are made again."""
    async with scene(5) as here:
        async with here.load() as load:
            await load.more(5)
            victim = await here.kill(0)
            shutil.rmtree(here.cluster.directory / "bookie-0")
            await load.more(2)
            await here.command("healing", "run", "--lost", victim)
        await here.heal(victim)
        await here.whole()
        await here.read_back(load)
        await here.command("bookie", "forget", victim)
        return Proof(f"{len(load.acked)} ledgers have all copies without it", load.bytes)


async def stopped() -> Proof:
    """A bookie that was stopped comes back: no copy moves, it fetches its missing entries."""
    async with scene(4) as here:
        async with here.load() as load:
            await load.more(3)
            await here.kill(0)
            await load.more(2)
            await here.cluster.restart(0)
            await load.more(2)
        *asked, _ = (await here.command("healing", "run", "--dry-run", "--json")).json
        moved = [each for each in asked if each["places"]]
        check(not moved, f"copies would move: {moved}")
        await here.heal()
        await here.whole()
        await here.read_back(load)
        return Proof(
            f"{len(load.acked)} ledgers, none moved, {len(asked)} fetched in part", load.bytes
        )


async def closed(ledgers: int = LEDGERS) -> Proof:
    """Many ledgers that are closed without a fault have all their copies."""
    async with scene(3) as here:
        made = await here.closed_ledgers(ledgers)
        late = await here.whole()
        return Proof(
            f"none of {len(made)} ledgers is short; {late} were at the first look", here.written
        )


async def shown() -> Proof:
    """A bookie that is lost stays in the list, and the cluster's health names it."""
    async with scene(4) as here:
        await here.closed_ledgers(20)
        victim = await here.kill(0)
        check(await here.state(victim) == "silent", "it is not listed as silent")
        check(await here.state(victim, "--lost-after", "0s") == "lost", "it is not listed as lost")
        health = await here.command("cluster", "health", "--lost-after", "0s", code=11)
        check(victim in health.out, f"its health does not name the bookie: {health.out}")
        named = await here.command("bookie", "forget", victim, "--dry-run", code=7)
        check("name it" in named.err, f"its ledgers are not named: {named.err}")
        return Proof(
            f"listed as lost, health exits with 11; {named.err.strip()[-100:]}", here.written
        )


async def drained() -> Proof:
    """A bookie is drained under load; the command is killed half-way, and it goes on."""
    async with scene(5) as here:
        async with here.load() as load:
            await load.more(6)
            leaves = here.bookie(0)
            await here.command("bookie", "drain", leaves)
            with started("healing", "run", store=here.cluster.store_uri) as healing:
                await _until_asked(here, healing)
                healing.kill()
            await here.command("healing", "run")
            await load.more(2)
        await here.heal()
        watched = await here.command("bookie", "drain", leaves, "--watch", "--json")
        check(watched.json[-1]["left"] == 0, watched.out)
        await here.whole()
        await here.kill(0)
        await here.command("bookie", "forget", leaves)
        await here.read_back(load)
        return Proof(
            f"{len(load.acked)} ledgers, no failed append, p99 {load.p99 * 1000:.0f} ms", load.bytes
        )


async def _until_asked(here: Scene, asks: subprocess.Popen[str]) -> None:
    """Return when a bookie was asked for copies, or the process that asks has ended."""
    store = await open_store(here.cluster.store_uri)
    try:
        async with open_healing(store) as healing:
            while not await healing.orders() and asks.poll() is None:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    finally:
        await store.close()


async def refused() -> Proof:
    """A drain that leaves copies without a place is refused at once, with the ledgers."""
    async with scene(3) as here:
        ledgers = await here.closed_ledgers(4)
        leaves = here.bookie(0)
        said = await here.command("bookie", "drain", leaves, code=7)
        missing = [each for each in ledgers if str(each) not in said.err]
        check(not missing, f"ledgers {missing} are not named: {said.err}")
        check(await here.state(leaves) == "up", "it is not up any more")
        return Proof(said.err.strip()[:160], here.written)


async def rolled() -> Proof:
    """All bookies are restarted in turn under load, by `away` and `roll-check`."""
    async with scene(4) as here:
        async with here.load() as load:
            await load.more(2)
            for index in range(4):
                await _until_may_roll(here)
                bookie = here.bookie(index)
                await here.command("bookie", "away", bookie, "--for", "5m")
                await here.kill(index)
                await here.cluster.restart(index)
                await here.command("bookie", "back", bookie)
        await here.heal()
        await here.whole()
        await here.command("cluster", "roll-check")
        await here.read_back(load)
        return Proof(
            f"{len(load.seconds)} appends, none failed, p99 {load.p99 * 1000:.0f} ms", load.bytes
        )


async def _until_may_roll(here: Scene) -> None:
    async def may_roll() -> bool:
        if (await here.command("cluster", "roll-check", code=None)).code == 0:
            return True
        await here.command("healing", "run", code=None)
        return False

    await here.until(may_roll, "the next bookie may be stopped")


async def racks() -> Proof:
    """With three racks of two bookies no ledger has two copies in a rack, and one rack may go."""
    async with scene(6, RACKS) as here:
        rack = {each.bookie: each.labels.rack for each in here.client.bookies()}
        async with here.load() as load:
            await load.more(3)
            ledgers = await here.closed_ledgers(100)
            for ledger in ledgers:
                info = await here.client.ledger_info(ledger)
                for each in info.fragments:
                    used = {rack[name] for name in each.bookies}
                    check(len(used) == 3, f"ledger {ledger} uses racks {sorted(used)}")
            left = await here.client.create_ledger()
            await left.append(b"of a writer that is gone")
            for index in range(6):
                if rack[here.bookie(index)] == "r0":
                    await here.kill(index)
            await load.more(1)
        await here.read_back(load)
        async with await here.client.open_ledger(left.ledger) as reader:
            check((await reader.read_entry(0)).payload.startswith(b"of a writer"), "it is lost")
        return Proof(f"{len(ledgers)} ledgers spread over 3 racks, readable with 2", load.bytes)


async def hosts() -> Proof:
    """Two bookies on one host never share a ledger as long as there are three hosts."""
    async with scene(4, HOSTS) as here:
        host = {each.bookie: each.labels.host for each in here.client.bookies()}
        ledgers = await here.closed_ledgers(100)
        for ledger in ledgers:
            for each in (await here.client.ledger_info(ledger)).fragments:
                used = sorted(host[name] for name in each.bookies)
                check(len(set(used)) == 3, f"ledger {ledger} uses hosts {used}")
        return Proof(f"{len(ledgers)} ledgers, four bookies on three hosts", here.written)


async def regions() -> Proof:
    """With acks from two of three regions, one may be cut off; without two nothing is confirmed."""
    options = LedgerOptions(placement=TWO_REGIONS, append_timeout=20.0, request_timeout=2.0)
    async with scene(6, REGIONS, options) as here:
        region = {here.bookie(each): REGIONS[each % 3].region for each in range(6)}
        by_region = [[each, each + 3] for each in range(3)]
        writer = await here.client.create_ledger(REPLICATION)
        acked, seconds = [b"%d" % each for each in range(10)], 0.0
        await writer.append_many(acked)
        _pause(here, by_region[0])
        for number in range(10, 30):
            began = time.monotonic()
            await writer.append(b"%d" % number)
            seconds = max(seconds, time.monotonic() - began)
            acked.append(b"%d" % number)
        _pause(here, by_region[1])
        try:
            await writer.append(b"to one region")
            raise DrillError("an append was confirmed with copies in one region")
        except AppendOutcomeUnknownError as error:
            unknown = str(error)
        cut = [each for each in region if region[each] != "r2"]
        await here.registered(*cut, wanted=False)
        try:
            await here.client.create_ledger(Replication(2, 2, 2))
            raise DrillError("a ledger was made in one region")
        except NotEnoughDomainsError as error:
            check("r2 (2)" in str(error), f"it does not say what is there: {error}")
            refusal = str(error)
        for index in (*by_region[0], *by_region[1]):
            here.cluster.resume(index)
        await here.registered(*region, wanted=True)
        async with await here.client.open_ledger(writer.ledger) as reader:
            last = reader.info.last_entry
            check(last is not None and last >= len(acked) - 1, f"the ledger ends at {last}")
            found = [each.payload async for each in reader.read(0, len(acked) - 1)]
            check(found == acked, "other entries were read than acknowledged")
        await here.closed_ledgers(10)
        await here.heal()
        await here.whole()
        return Proof(
            f"one region cut: the slowest append took {seconds:.1f} s; two cut: {unknown[:60]}…, "
            f"{refusal[:60]}…; {len(acked)} acknowledged entries read",
            sum(map(len, acked)),
        )


def _pause(here: Scene, indexes: Sequence[int]) -> None:
    """Cut bookies off: they stay connected, and say nothing to anyone."""
    for index in indexes:
        here.cluster.pause(index)


Drill = Callable[[], Awaitable[Proof]]

DRILLS: Final[dict[str, Drill]] = {
    each.__name__: each
    for each in (
        *(lost, stopped, closed, shown, drained, refused, rolled, racks, hosts, regions),
        *(spread, returned, paused, silenced, away, voided, crowded),
        *(restored, deposed, upgraded, probed, looked),
    )
}
