"""Calls with an argument of the wrong type raise an error of quire that names it, and do nothing.

A payload that is not bytes-like is a `TypeError`, as the calls say.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from quire.errors import InvalidRequestError
from quire.ledger.options import LedgerOptions
from quire.log.records.position import AtCursor, AtTxid
from tests.support.log_cluster import NAME, LogCluster, whole_client
from tests.support.store_dump import dump

Call = Callable[[Any], Any]

NUMBER: Final[Any] = 5
TEXT: Final[Any] = "7"

ON_A_LOG: Final[dict[str, Call]] = {
    "last_sequence": lambda log: log.last_sequence(5),
    "last_sequence of bytes": lambda log: log.last_sequence(b"shop"),
    "append at an offset": lambda log: log.append(b"x", expected_offset="3"),
    "append with a sequence": lambda log: log.append(b"x", producer_sequence=5),
    "append with a pair": lambda log: log.append(b"x", producer_sequence=("shop", 1)),
    "append with a txid": lambda log: log.append(b"x", txid="7"),
    "append_many at an offset": lambda log: log.append_many([b"x"], expected_offset=1.0),
    "append_many with a txid": lambda log: log.append_many([b"x"], txid=1.5),
    "submit with a txid": lambda log: log.submit(b"x", txid=b"7"),
    "append_table": lambda log: log.append_table(5),
    "trim to a number": lambda log: log.trim(5),
    "trim to text": lambda log: log.trim("1.0.0"),
    "trim to a tuple": lambda log: log.trim((1, 0, 0)),
    "trim to nothing": lambda log: log.trim(None),
}

OF_A_CLIENT: Final[dict[str, Call]] = {
    "open_log by number": lambda client: client.open_log(5),
    "open_log by bytes": lambda client: client.open_log(b"orders"),
    "open_log with a mapping": lambda client: client.open_log("new", {"roll_bytes": 5}),
    "open_log with is_leader": lambda client: client.open_log("new", is_leader=True),
    "read_log by number": lambda client: client.read_log(5),
    "read_log from text": lambda client: client.read_log(NAME, "1.0.0"),
    "read_log from nothing": lambda client: client.read_log(NAME, None),
    "read_log from a cursor": lambda client: client.read_log(NAME, AtCursor(NUMBER)),
    "read_log from a txid": lambda client: client.read_log(NAME, AtTxid(TEXT)),
    "read_log with on_gap": lambda client: client.read_log(NAME, on_gap=5),
    "read_log with keys": lambda client: client.read_log(NAME, keyring={"a": b"key"}),
    "read_log with a password": lambda client: _read(client, password="text"),
    "snapshot_log within": lambda client: client.snapshot_log(NAME, bounds=5),
    "snapshot_log with a password": lambda client: client.snapshot_log(NAME, password="text"),
    "log_end with a password": lambda client: client.log_end(NAME, password="text"),
    "last_txid by number": lambda client: client.last_txid(5),
    "recover_log with a password": lambda client: client.recover_log(NAME, password="text"),
    "create_log by number": lambda client: client.create_log(5),
    "create_log with numbers": lambda client: client.create_log("new", {"roll_bytes": 5}),
    "create_log with text": lambda client: client.create_log("new", "roll_bytes=5"),
    "configure_log with nothing": lambda client: client.configure_log(NAME, None),
    "configure_log by number": lambda client: client.configure_log(NAME, {5: "5"}),
    "log_info by number": lambda client: client.log_info(5),
    "watch_log by number": lambda client: anext(client.watch_log(5)),
    "trim_log to text": lambda client: client.trim_log(NAME, "1.0.0"),
    "trim_log to a fraction": lambda client: client.trim_log(NAME, 1.5),
    "delete_log by number": lambda client: client.delete_log(5),
    "delete_log as led": lambda client: client.delete_log(NAME, led=5),
    "open a cursor by number": lambda client: client.log_cursors(NAME).open(5),
    "open a cursor at text": lambda client: client.log_cursors(NAME).open("c", "1.0.0"),
    "reset a cursor to a tuple": lambda client: client.log_cursors(NAME).reset("c", (1, 0, 0)),
    "find a cursor by number": lambda client: client.log_cursors(NAME).find(5),
    "delete a cursor by number": lambda client: client.log_cursors(NAME).delete(5),
    "create_ledger": lambda client: client.create_ledger("3/3/2"),
    "create_ledger with a password": lambda client: client.create_ledger(password="text"),
    "create_ledger with a digest": lambda client: client.create_ledger(digest=5),
    "create_ledger with a placement": lambda client: client.create_ledger(placement="zone:2"),
    "create_ledger with text": lambda client: client.create_ledger(custom_metadata={"a": 5}),
    "create_ledger with a list": lambda client: client.create_ledger(custom_metadata=["ab"]),
    "create_ledger with numbers": lambda client: client.create_ledger(custom_metadata={5: "a"}),
    "create_ledger with 1": lambda client: client.create_ledger(full_quorum=1),
    "create_ledger with yes": lambda client: client.create_ledger(full_quorum="yes"),
    "create_ledger deferred by text": lambda client: client.create_ledger(deferred_sync="no"),
    "create_ledger guarded by text": lambda client: client.create_ledger(
        password=b"p", read_needs_password="no"
    ),
    "open_ledger by text": lambda client: client.open_ledger("5"),
    "open_ledger by nothing": lambda client: client.open_ledger(None),
    "open_ledger_without_recovery": lambda client: client.open_ledger_without_recovery(1.5),
    "open_ledger with a password": lambda client: client.open_ledger(0, password="text"),
    "delete_ledger by text": lambda client: client.delete_ledger("5", force=True),
    "ledger_info by text": lambda client: client.ledger_info("5"),
    "ledger_inventory by text": lambda client: client.ledger_inventory("5"),
    "election by number": lambda client: client.election(5),
    "election with a name": lambda client: client.election("e", 5),
    "election with a session": lambda client: client.election("e", session_timeout="6"),
    "service with options": lambda client: client.service("s", None, options={}),
    "lead_log with options": lambda client: _lead(client, {"roll_bytes": 5}),
}

OF_A_LEDGER: Final[dict[str, Call]] = {
    "read_entry by text": lambda reader: reader.read_entry("0"),
    "read_entry by nothing": lambda reader: reader.read_entry(None),
    "read from text": lambda reader: anext(reader.read("0")),
    "read to text": lambda reader: anext(reader.read(0, "1")),
    "follow from text": lambda reader: anext(reader.follow("0")),
    "read_unconfirmed from text": lambda reader: anext(reader.read_unconfirmed("0", 1)),
}


async def _read(client: Any, **options: Any) -> None:
    async with client.read_log(NAME, **options) as reader:
        await anext(reader)


async def _lead(client: Any, options: Any) -> None:
    async with client.lead_log("led", options):
        pass


async def _made(call: Call, subject: Any) -> None:
    found = call(subject)
    if isinstance(found, Awaitable):
        await found


@pytest.mark.parametrize("name", ON_A_LOG)
async def test_a_log_refuses_it(cluster: LogCluster, name: str) -> None:
    client = whole_client(cluster)
    async with await client.open_log(NAME) as log:
        await log.append(b"0")
        before = await dump(cluster.store)
        with pytest.raises(InvalidRequestError):
            await _made(ON_A_LOG[name], log)
        assert await dump(cluster.store) == before
        assert (await log.append(b"1")).offset == 1
    await client.close()


@pytest.mark.parametrize("name", OF_A_CLIENT)
async def test_a_client_refuses_it(cluster: LogCluster, name: str) -> None:
    client = whole_client(cluster)
    async with await client.open_log(NAME) as log:
        await log.append(b"0")
        before = await dump(cluster.store)
        with pytest.raises(InvalidRequestError):
            await _made(OF_A_CLIENT[name], client)
        assert await dump(cluster.store) == before
    await client.close()


@pytest.mark.parametrize("name", OF_A_LEDGER)
async def test_a_reader_of_a_ledger_refuses_it(cluster: LogCluster, name: str) -> None:
    client = whole_client(cluster)
    async with await client.create_ledger() as writer:
        await writer.append(b"0")
    async with await client.open_ledger(writer.ledger) as reader:
        before = await dump(cluster.store)
        with pytest.raises(InvalidRequestError):
            await _made(OF_A_LEDGER[name], reader)
        assert await dump(cluster.store) == before
        assert (await reader.read_entry(0)).payload == b"0"
    await client.close()


async def test_an_error_names_the_value_and_the_remedy(cluster: LogCluster) -> None:
    client = whole_client(cluster)
    with pytest.raises(InvalidRequestError, match=r"ledger id '5' is not a number in 0\.\."):
        await client.ledger_info("5")  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match=r"expected LogOptions, not LedgerOptions: give"):
        await client.open_log(NAME, LedgerOptions())  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match="a password must be bytes, not str: encode") as (
        found
    ):
        await client.create_ledger(password="hunter2")  # type: ignore[arg-type]
    assert "hunter2" not in str(found.value)
    await client.close()


async def test_no_bounds_are_the_whole_log(cluster: LogCluster) -> None:
    client: Any = whole_client(cluster)
    async with await client.open_log(NAME) as log:
        await log.append(b"0")
        await log.roll()
        assert await client.snapshot_log(NAME, bounds=None) == await client.snapshot_log(NAME)
    await client.close()
