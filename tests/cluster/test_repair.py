"""`quire bookie repair` on a real cluster: whatever a stopped bookie lost comes back from the
others."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from quire import connect
from quire.bookie import BookieAddress
from quire.client import Client
from quire.cluster import LocalCluster
from quire.cluster.process import ProcessState
from quire.entry import Sealer
from quire.errors import BookieUnavailableError, EntryUnknownError
from quire.ledger.remote import RemoteBookie
from quire.ledgers import Replication
from quire.run import split_run
from tests.support.command import Finished, is_running, quire

WAIT_SECONDS = 60.0
VICTIM = 0
PAYLOADS = [b"%d:" % number + bytes(2000) for number in range(100)]


@asynccontextmanager
async def running(path: Path) -> AsyncIterator[tuple[LocalCluster, Client]]:
    async with LocalCluster(path, 4) as cluster, connect(cluster.store_uri) as client:
        yield cluster, client


async def filled(client: Client, replication: Replication) -> int:
    """Write a ledger, close it when every copy is there, and return its id."""
    writer = await client.create_ledger(replication, full_quorum=True)
    for start in range(0, len(PAYLOADS), 50):
        await writer.append_many(PAYLOADS[start : start + 50])
    await writer.close()
    return writer.ledger


def newest(directory: Path, suffix: str) -> Path:
    """Return the largest file of a kind: the one that holds the entries."""
    return max(directory.rglob(f"*{suffix}"), key=lambda path: path.stat().st_size)


def segment(directory: Path) -> Path:
    """Return a journal segment that holds entries."""
    segments = sorted(directory.glob("journal/*.journal"))
    return next(path for path in segments if entry_at(path) >= 0)


def entry_at(path: Path) -> int:
    """Return where in a segment its first entry is, −1 when it has none.

    Not the last one: damage to a batch that none follows is what a power cut leaves behind.
    """
    data = path.read_bytes()
    found = [at for payload in PAYLOADS if (at := data.find(payload)) >= 0]
    return min(found, default=-1)


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0xFF
    path.write_bytes(data)


def halve(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def lose_checkpoints(directory: Path) -> None:
    for path in directory.glob("checkpoint-*"):
        path.unlink()


KILLED: dict[str, Callable[[Path], None]] = {
    "a flipped byte in the journal": lambda directory: flip(
        segment(directory), entry_at(segment(directory))
    ),
    "a lost segment": lambda directory: segment(directory).unlink(),
}
CLOSED: dict[str, Callable[[Path], None]] = {
    "a cut entry log": lambda directory: halve(newest(directory, ".entries")),
    "all entry logs lost": lambda directory: shutil.rmtree(directory / "entries"),
    "lost checkpoints": lose_checkpoints,
}


SHAPES = (Replication(3, 3, 2), Replication(4, 2, 2), Replication(4, 3, 2))


@asynccontextmanager
async def linked(cluster: LocalCluster) -> AsyncIterator[RemoteBookie]:
    """A link to the victim, where it listens now."""
    ready = cluster.ready(VICTIM)
    assert ready is not None
    link = RemoteBookie(BookieAddress(ready.bookie, ready.address))
    try:
        yield link
    finally:
        await link.close()


async def whole_again(link: RemoteBookie) -> None:
    """Return when a bookie has nothing in limbo any more."""
    async with asyncio.timeout(WAIT_SECONDS):
        while (await link.info()).in_limbo:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def in_thread(*arguments: str, store: str | None = None) -> Finished:
    return await asyncio.to_thread(quire, *arguments, store=store)


async def check_holdings(client: Client, link: RemoteBookie, ledgers: list[int]) -> None:
    """The bookie holds every entry of which it is in the write set, and nothing is damaged."""
    bookie = (await link.info()).bookie
    for ledger in ledgers:
        info = await client.ledger_info(ledger)
        assert info.last_entry == len(PAYLOADS) - 1
        sealer = Sealer(ledger, info.digest, b"")
        for entry, payload in enumerate(PAYLOADS):
            if bookie in info.write_set(entry):
                (frame,) = split_run(await link.read(ledger, entry, entry))
                assert sealer.unseal(entry, frame[1]).payload == payload


async def kill(cluster: LocalCluster, index: int) -> None:
    """Kill a bookie, and return when its process is gone: until then it locks its directory."""
    cluster.kill(index)
    async with asyncio.timeout(WAIT_SECONDS):
        while cluster.state(index) is not ProcessState.EXITED:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def end_in_order(cluster: LocalCluster) -> None:
    """Have the victim flush and stop."""
    pid = cluster.pid(VICTIM)
    os.kill(pid, signal.SIGTERM)
    while is_running(pid):  # noqa: ASYNC110
        await asyncio.sleep(0.05)


async def lose(cluster: LocalCluster, what: str) -> None:
    """Stop the victim and damage its disk; it is refused, and repaired, but does not run yet."""
    directory = cluster.bookie_directory(VICTIM)
    await kill(cluster, VICTIM)
    if what in CLOSED:  # a start flushes what the journal has
        await cluster.restart(VICTIM)
        await kill(cluster, VICTIM)
    (KILLED | CLOSED)[what](directory)
    with pytest.raises(BookieUnavailableError, match="quire bookie repair"):
        await cluster.restart(VICTIM)
    await accept_loss(cluster)


async def accept_loss(cluster: LocalCluster) -> None:
    directory = str(cluster.bookie_directory(VICTIM))
    repair = ("bookie", "repair", directory, "--accept-loss")
    done = await in_thread(*repair, store=cluster.store_uri)
    assert done.code == 0, done.err


@pytest.mark.timeout(600)
def test_whatever_a_bookie_lost_comes_back(tmp_path: Path) -> None:
    """One damage after the other; every kind is in tests/storage/offline/test_salvage.py."""

    async def main() -> None:
        async with running(tmp_path) as (cluster, client):
            for what in (*KILLED, *CLOSED):
                ledgers = [await filled(client, shape) for shape in SHAPES]
                await lose(cluster, what)
                await cluster.restart(VICTIM)
                async with linked(cluster) as link:
                    await whole_again(link)
                    await check_holdings(client, link, ledgers)
            await end_in_order(cluster)  # killed, it would clear limbo once more
            directory = str(cluster.bookie_directory(VICTIM))
            checked = await in_thread("bookie", "check", directory, "--json")
            assert (checked.code, checked.json[-1]["in_limbo"]) == (0, 0)

    asyncio.run(main())


def test_a_look_changes_nothing_and_names_the_option(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as (cluster, client):
            await filled(client, Replication(4, 4, 2))
            directory = cluster.bookie_directory(VICTIM)
            await kill(cluster, VICTIM)
            flip(segment(directory), 20)
            before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
            repair = ("bookie", "repair", str(directory))
            looked = await in_thread(*repair, "--json", store=cluster.store_uri)
            assert looked.code == 0
            assert "--accept-loss" in (await in_thread(*repair, store=cluster.store_uri)).err
            said = looked.json[-1]
            assert (said["repaired"], said["in_limbo"], said["damaged"]) == (False, 1, 1)
            assert before == {
                path: path.read_bytes() for path in directory.rglob("*") if path.is_file()
            }

    asyncio.run(main())


def test_others_may_be_lost_when_a_repaired_bookie_is_whole(tmp_path: Path) -> None:
    """Copies that came back count: each of the others may go, and everything can be read."""

    async def main() -> None:
        async with running(tmp_path) as (cluster, client):
            ledgers = [await filled(client, shape) for shape in SHAPES]
            directory = cluster.bookie_directory(VICTIM)
            await kill(cluster, VICTIM)
            segment(directory).unlink()
            await accept_loss(cluster)
            await cluster.restart(VICTIM)
            async with linked(cluster) as link:
                await whole_again(link)
            for other in range(1, 4):
                await kill(cluster, other)
                async with connect(cluster.store_uri) as fresh:
                    for ledger in ledgers:
                        reader = await fresh.open_ledger(ledger)
                        assert [entry.payload async for entry in reader.read()] == PAYLOADS
                await cluster.restart(other)

    asyncio.run(main())


def test_a_writer_goes_on_while_a_bookie_of_its_ledger_is_in_limbo(tmp_path: Path) -> None:
    """The open ledger stays in limbo; it is whole again soon after it was closed."""

    async def main() -> None:
        async with running(tmp_path) as (cluster, client):
            writer = await client.create_ledger(Replication(4, 4, 2))
            await writer.append_many(PAYLOADS[:30])
            async with linked(cluster) as link:
                async with asyncio.timeout(WAIT_SECONDS):
                    while not await link.list_entries(writer.ledger):  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
            directory = cluster.bookie_directory(VICTIM)
            await kill(cluster, VICTIM)
            segment(directory).unlink()
            await accept_loss(cluster)
            await cluster.restart(VICTIM)
            await writer.append_many(PAYLOADS[30:60])
            async with linked(cluster) as link:
                assert (await link.info()).in_limbo == 1
                with pytest.raises(EntryUnknownError):
                    await link.read_tail(writer.ledger)
                await writer.append_many(PAYLOADS[60:])
                await writer.close()
                await whole_again(link)
                await check_holdings(client, link, [writer.ledger])

    asyncio.run(main())


def test_a_wiped_disk_is_a_new_bookie(tmp_path: Path) -> None:
    """Under its old identity an empty disk is neither served nor repaired."""

    async def main() -> None:
        async with running(tmp_path) as (cluster, client):
            ledger = await filled(client, Replication(4, 4, 2))
            directory = cluster.bookie_directory(VICTIM)
            ready = cluster.ready(VICTIM)
            assert ready is not None
            await kill(cluster, VICTIM)
            shutil.rmtree(directory)
            directory.mkdir()
            with pytest.raises(BookieUnavailableError, match="quire bookie format"):
                await cluster.restart(VICTIM)
            store = cluster.store_uri
            refused = await in_thread(
                "bookie", "repair", str(directory), "--accept-loss", store=store
            )
            assert refused.code == 2
            assert "not a bookie's" in refused.err
            formatted = await in_thread("bookie", "format", str(directory), "--json", store=store)
            assert formatted.json[0]["bookie"] != ready.bookie
            await cluster.restart(VICTIM)
            async with linked(cluster) as link:
                assert (await link.info()).ledgers == 0
            reader = await client.open_ledger(ledger)
            assert [entry.payload async for entry in reader.read()] == PAYLOADS

    asyncio.run(main())


def test_a_running_bookie_is_not_repaired(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as (cluster, _):
            directory = str(cluster.bookie_directory(VICTIM))
            for options in ((), ("--accept-loss",)):
                done = await in_thread(
                    "bookie", "repair", directory, *options, store=cluster.store_uri
                )
                assert done.code == 9
                assert "in use" in done.err

    asyncio.run(main())
