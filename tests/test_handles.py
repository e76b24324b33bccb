"""What every handle does: it names itself, and refuses another event loop clearly."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

import quire
import quire.sync
from quire.errors import HandleClosedError, WrongLoopError
from quire.ledgers import LedgerReader, LedgerWriter, Replication
from quire.testing import MemoryCluster

OPTIONS = quire.LogOptions(replication=Replication(1, 1, 1))


@dataclass
class Handles:
    """One handle of each kind, of one client."""

    client: quire.Client
    log: quire.Log
    reader: quire.LogReader
    cursor: quire.Cursor
    election: quire.Election
    writer: LedgerWriter
    ledger: LedgerReader


async def open_all(client: quire.Client) -> Handles:
    log = await client.open_log("orders", OPTIONS)
    await log.append(b"one")
    reader = await client.read_log("orders", follow=True)
    cursor = await client.log_cursors("orders").open("billing")
    election = client.election("leader", "a")
    await election.leader()
    writer = await client.create_ledger(Replication(1, 1, 1))
    await writer.append(b"entry")
    ledger = await client.open_ledger_without_recovery(writer.ledger)
    return Handles(client, log, reader, cursor, election, writer, ledger)


async def enter(election: quire.Election) -> None:
    async with election.lead():
        raise AssertionError("it was elected in another loop")


CALLS: dict[str, Callable[[Handles], Awaitable[object]]] = {
    "list_logs": lambda all_: all_.client.list_logs(),
    "list_ledgers": lambda all_: all_.client.list_ledgers(),
    "read_log": lambda all_: all_.client.read_log("orders").open(),
    "append": lambda all_: all_.log.append(b"two"),
    "submit": lambda all_: all_.log.submit(b"two"),
    "append_many": lambda all_: all_.log.append_many([b"two"]),
    "anext": lambda all_: anext(all_.reader),
    "advance": lambda all_: all_.cursor.advance(1),
    "leader": lambda all_: all_.election.leader(),
    "lead": lambda all_: enter(all_.election),
    "ledger append": lambda all_: all_.writer.append(b"two"),
    "ledger append_many": lambda all_: all_.writer.append_many([b"two"]),
    "ledger submit": lambda all_: all_.writer.submit(b"two"),
    "read_entry": lambda all_: all_.ledger.read_entry(0),
    "last_confirmed": lambda all_: all_.ledger.last_confirmed(),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_handle_refuses_another_event_loop(name: str) -> None:
    async def main() -> None:
        async with MemoryCluster(1) as cluster, quire.connect(cluster.store_uri) as client:
            handles = await open_all(client)

            async def misuse() -> object:
                return await CALLS[name](handles)

            with pytest.raises(WrongLoopError, match=r"^<\w+ .*> belongs to another event loop"):
                await asyncio.to_thread(asyncio.run, misuse())
            assert (await handles.log.append(b"two")).offset == 1, "the refusal wrote nothing"

    asyncio.run(main())


def test_a_handle_refuses_the_next_event_loop_of_its_thread() -> None:
    """As of a program that says `run` for each step: the thread is the same, the loop is not."""
    with asyncio.Runner() as first, asyncio.Runner() as second:

        async def begin() -> tuple[MemoryCluster, Handles]:
            cluster = MemoryCluster(1)
            await cluster.__aenter__()
            return cluster, await open_all(await quire.connect(cluster.store_uri))

        cluster, handles = first.run(begin())
        for _ in range(2):  # the second finds the log's task awake already
            with pytest.raises(WrongLoopError, match=r"^<Log .*> belongs to another event loop"):
                second.run(handles.log.submit(b"two"))
        for name, call in CALLS.items():

            async def misuse(call: Callable[[Handles], Awaitable[object]] = call) -> object:
                return await call(handles)

            with pytest.raises(WrongLoopError):
                second.run(misuse())
            assert first.run(handles.log.append(b"two")).offset >= 1, name
        assert first.run(handles.log.append(b"three")).offset == 1 + len(CALLS)
        first.run(handles.client.close())
        first.run(cluster.__aexit__(None, None, None))


def test_the_blocking_api_works_beside_a_loop() -> None:
    """As in a notebook: its thread has a running loop, and quire.sync works in another one."""

    async def main() -> None:
        with MemoryCluster(1) as cluster, quire.sync.connect(cluster.store_uri) as client:
            with client.open_log("orders", OPTIONS) as log:
                log.append(b"one")
            client.election("leader", "a").leader()
            assert [each.payload for each in client.read_log("orders")] == [b"one"]

    asyncio.run(main())


def test_a_handle_names_itself_and_its_state() -> None:
    async def main() -> None:
        async with MemoryCluster(1) as cluster, quire.connect(cluster.store_uri) as client:
            handles = await open_all(client)
            assert repr(client) == f"<Client of {cluster.store_uri}>"
            assert repr(handles.log) == "<Log 'orders' epoch 1, leads>"
            assert repr(handles.reader) == "<LogReader 'orders' at 0.0.0, follows>"
            assert repr(handles.cursor) == "<Cursor 'billing' of log 'orders' at 1.0.0>"
            assert repr(client.log_cursors("orders")) == "<LogCursors of log 'orders'>"
            assert repr(handles.election) == "<Election 'leader', candidate 'a' does not lead>"
            async with handles.election.lead() as leadership:
                assert repr(handles.election) == "<Election 'leader', candidate 'a' leads>"
                assert repr(leadership) == "<Leadership of 'leader' epoch 1, leads>"
            assert repr(leadership) == "<Leadership of 'leader' epoch 1, lost>"
            ledger = handles.writer.ledger
            assert repr(handles.writer) == f"<LedgerWriter of ledger {ledger}, open>"
            assert repr(handles.ledger) == f"<LedgerReader of ledger {ledger}, open>"
            await handles.log.close()
            await handles.reader.close()
            assert repr(handles.log) == "<Log 'orders' epoch 1, ended>"
            assert repr(handles.reader) == "<LogReader 'orders' at 0.0.0, closed>"
            with pytest.raises(HandleClosedError):
                await anext(handles.reader)

    asyncio.run(main())


def test_a_blocking_twin_names_its_original() -> None:
    with MemoryCluster(1) as cluster, quire.sync.connect(cluster.store_uri) as client:
        with client.open_log("orders", OPTIONS) as log:
            assert repr(log) == "<SyncLog: <Log 'orders' epoch 1, leads>>"
        assert repr(client) == f"<SyncClient: <Client of {cluster.store_uri}>>"
