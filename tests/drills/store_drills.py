"""Drills of the metadata store: an old copy of it comes back, and a leader is cut off from it."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from unittest.mock import patch

from quire import connect
from quire.client import Client
from quire.cluster import LocalCluster
from quire.entry import LedgerId
from quire.errors import BookieUnavailableError, NotFoundError, QuireError, StoreUnavailableError
from quire.log.leader.log import Log
from quire.metastore import open_store
from quire.metastore.place import METADATA_FILE
from quire.metastore.store import MetadataStore
from tests.drills.auditor_drills import healing_scene
from tests.drills.scene import DrillError, Proof, Scene, check
from tests.support.faulty_store import FaultyStore

BOOKIES: Final = 3
LEDGERS: Final = 5
RECORDS: Final = 20
LOG: Final = "orders"
DAMAGED: Final = 9
"""The exit code of a bookie that must not be started again as it is."""


async def restored() -> Proof:
    """Metadata of yesterday come back: bookies refuse until `metadata adopt`, and ids stay new."""
    with tempfile.TemporaryDirectory(prefix="quire-drill-") as name:
        directory, yesterday = Path(name) / "cluster", Path(name) / "yesterday"
        async with _here(directory) as here:
            kept = await here.closed_ledgers(LEDGERS)
        shutil.copy(directory / METADATA_FILE, yesterday)
        async with _here(directory) as here:
            forgotten = await here.closed_ledgers(LEDGERS)
            written = here.written
        _put_back(yesterday, directory / METADATA_FILE)
        refusal = await _refusal(directory)
        for asked in ("StoreWentBackError", "quire metadata adopt", f"code {DAMAGED}"):
            check(asked in refusal, f"bookies do not say {asked!r}: {refusal}")
        # No bookie runs, so the command cannot ask them: the margin covers their ids.
        cluster = LocalCluster(directory, BOOKIES)
        async with connect(cluster.store_uri) as client:
            await Scene(cluster, client).command("metadata", "adopt")
        async with _here(directory) as here:
            anew = await here.closed_ledgers(LEDGERS, entries=7)
            check(min(anew) > max(kept + forgotten), f"ids {anew} were given out before")
            await _read(here, kept, entries=5)
            await _read(here, anew, entries=7)
            for ledger in forgotten:
                await _is_unknown(here.client, ledger)
            return Proof(
                f"bookies refused with StoreWentBackError and exit code {DAMAGED}; after the "
                f"adoption ids go on at {min(anew)}, {len(kept)} ledgers are read whole, and "
                f"{len(forgotten)} of today are unknown",
                written + here.written,
            )


@asynccontextmanager
async def _here(directory: Path) -> AsyncIterator[Scene]:
    made = LocalCluster(directory, BOOKIES)
    async with made as cluster, connect(cluster.store_uri) as client:
        yield Scene(cluster, client)


def _put_back(yesterday: Path, store: Path) -> None:
    """Replace a SQLite file by its copy, as a restored snapshot of a disk does."""
    for file in store.parent.glob(f"{store.name}*"):
        file.unlink()
    shutil.copy(yesterday, store)


async def _refusal(directory: Path) -> str:
    try:
        async with LocalCluster(directory, BOOKIES):
            return "the bookies served over a store of yesterday"
    except BookieUnavailableError as error:
        return str(error)


async def _read(here: Scene, ledgers: list[LedgerId], entries: int) -> None:
    wanted = [b"%d" % each for each in range(entries)]
    for ledger in ledgers:
        async with await here.client.open_ledger(ledger) as reader:
            found = [each.payload async for each in reader.read(0)]
            check(found == wanted, f"ledger {ledger} holds {found}")


async def _is_unknown(client: Client, ledger: LedgerId) -> None:
    try:
        async with await client.open_ledger(ledger):
            check(False, f"ledger {ledger} is read, and yesterday's metadata do not know it")
    except NotFoundError:
        return


async def deposed() -> Proof:
    """A leader cut off from the store is refused, also when its segment is trimmed and gone."""
    async with (
        healing_scene(BOOKIES) as here,
        _cut_off_later(here.cluster.store_uri) as (line, app),
    ):
        leader = await app.open_log(LOG)
        mine = [await leader.append(b"mine %d" % each) for each in range(RECORDS)]
        line.before = _no_answer
        ledgers = await _ledgers(here)
        async with await here.client.open_log(LOG) as next_leader:
            theirs = [await next_leader.append(b"theirs %d" % each) for each in range(RECORDS)]
        await here.command("log", "trim", LOG, str(theirs[0].position))
        gone = sorted(ledgers - await _ledgers(here))
        check(bool(gone), f"no segment of the first leader was deleted: {sorted(ledgers)}")

        async def is_collected() -> bool:
            return await _dropped(here) >= BOOKIES

        await here.until(is_collected, "the bookies collect the segment of the first leader")
        refusal = await _refused(leader)
        found = [each.payload async for each in await here.client.read_log(LOG)]
        wanted = [b"theirs %d" % each for each in range(RECORDS)]
        check(found == wanted, f"the log holds {found}")
        line.before = _answer
        return Proof(
            f"{len(mine)} records in ledger {gone[0]}, which {await _dropped(here)} bookies "
            f"dropped; its leader was told: {refusal[:100]}",
            sum(map(len, found)),
        )


async def _refused(leader: Log) -> str:
    try:
        where = await leader.append(b"after the end")
    except QuireError as error:
        return f"{type(error).__name__}: {error}"
    raise DrillError(f"a deposed leader got an append acknowledged, at {where.position}")


async def _ledgers(here: Scene) -> set[LedgerId]:
    return set(await here.client.list_ledgers())


async def _dropped(here: Scene) -> int:
    """Return how many copies of deleted ledgers the bookies dropped since they started."""
    found = [await here.client.bookie_info(each.bookie) for each in here.client.bookies()]
    return sum(each.counters["collection_ledgers_dropped"] for each in found)


@asynccontextmanager
async def _cut_off_later(uri: str) -> AsyncIterator[tuple[FaultyStore, Client]]:
    """Connect over a line to the store that the drill may cut. Bookies are reached as ever."""
    made: list[FaultyStore] = []

    async def open_line(*arguments: object, **options: object) -> MetadataStore:
        store = await open_store(*arguments, **options)  # type: ignore[arg-type]
        made.append(FaultyStore(store))
        return made[0]

    with patch("quire.connection.open_store", open_line):
        client = await connect(uri)
    try:
        yield made[0], client
    finally:
        made[0].before = _answer
        with_loss = asyncio.create_task(client.close())
        await asyncio.gather(with_loss, return_exceptions=True)


async def _no_answer(method: str, path: str) -> None:
    raise StoreUnavailableError(f"{method} {path}", "the drill cut the line")


async def _answer(method: str, path: str) -> None:
    return None
