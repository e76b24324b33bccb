"""Logs that Apache DistributedLog's own library wrote to Apache's bookies, read by quire."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import quire
from quire.bookkeeper.dlog.log import DlogRecord, dlog_pieces, find_txid, read_dlog, read_piece
from quire.client import Client
from tests.interop.jars import install, install_dlog, program
from tests.interop.servers import ApacheServers, JavaError, JavaProgram
from tests.support.command import quire as run_quire
from tests.support.dlog import FILE

SOURCE = Path(__file__).parents[1] / "interop" / "Logs.java"
NAMESPACE = "/messaging/logs"
SEGMENTS = f"{NAMESPACE}/%s/<default>/ledgers"
COMPLETE = ("several", "older/versions", "older/names", "ended")


class Library(JavaProgram):
    """DistributedLog's library in a process of its own."""

    def __init__(self, servers: ApacheServers) -> None:
        here = ApacheServers(servers.directory, install_dlog(), "db", 0)
        place = f"127.0.0.1:{servers.port}"
        command = here.java(*program(SOURCE), place)
        super().__init__(command, servers.directory / "logs.log")

    def end(self) -> None:
        """Kill it, if it lives, and close its pipes."""
        self.kill()
        self._process.stdin.close()
        self._process.stdout.close()

    def rows(self, *words: str) -> list[list[str]]:
        """Return the records of an answer: DLSN, transaction id, payload, perhaps the number."""
        return [row.split(",") for row in self.ask(*words).split() if row != "end"]


def shown(records: Sequence[DlogRecord], *, numbered: bool) -> list[list[str]]:
    rows = []
    for each in records:
        row = [str(each.dlsn), str(each.txid), each.payload.hex()]
        rows.append([*row, str(each.sequence)] if numbered else row)
    return rows


async def read(client: Client, name: str) -> list[DlogRecord]:
    return [each async for each in read_dlog(client, f"{NAMESPACE}/{name}")]


async def read_whole_logs(client: Client, library: Library) -> None:
    for name in COMPLETE:
        found = await read(client, name)
        assert shown(found, numbered=False) == library.rows("wrote", name), name
        theirs = library.rows("read", name)
        ours = shown(found, numbered=True)
        assert [row[:3] for row in ours] == [row[:3] for row in theirs], name
        known = [pair for pair in zip(ours, theirs, strict=True) if pair[0][3] != "None"]
        assert all(our == their for our, their in known), name
        assert len(known) in {len(found), 20}, "all but segments of versions 2 to 4 are counted"
    assert await read(client, "empty") == []
    several = await read(client, "several")
    assert len({each.dlsn.segment for each in several}) == 4
    assert max(each.dlsn.slot for each in several) > 10, "many records in an entry"
    for record in several[::20]:
        name = f"{NAMESPACE}/several"
        assert await find_txid(client, name, record.txid) == record.dlsn
        found = [each async for each in read_dlog(client, name, start=record.dlsn.next)]
        assert found == several[several.index(record) + 1 :]


async def read_a_cut_log(client: Client, library: Library) -> None:
    records = [await client._store.get(f"{SEGMENTS % 'cut'}/logrecs_{n:018d}") for n in (1, 2, 3)]
    status = [int(each.value.split(b";")[0]) >> 8 & 3 for each in records]
    assert status == [2, 1, 0], "truncated, in part, and not"
    found = await read(client, "cut")
    assert shown(found, numbered=False) == library.rows("wrote", "cut")[5:]
    theirs = library.rows("read", "cut")
    assert shown(found, numbered=True) == theirs[-len(found) :]
    assert len(theirs) == len(found) + 2, "Java begins with the entry, which has two before"


async def read_an_open_log(client: Client, library: Library) -> None:
    names = await client._store.children(SEGMENTS % "open")
    assert [name.split("_")[0] for name in names] == ["inprogress", "logrecs"]
    wrote = library.rows("wrote", "open")
    before = shown(await read(client, "open"), numbered=False)
    assert before in (wrote, wrote[:-1]), "the newest may not be confirmed"
    library.ask("more")  # nobody fenced the writer
    library.ask("more")
    assert library.rows("wrote", "open")[: len(wrote)] == wrote
    after = shown(await read(client, "open"), numbered=False)
    assert after[: len(wrote)] == wrote
    assert len(after) in {len(wrote) + 1, len(wrote) + 2}


async def read_pieces(uri: str, client: Client) -> None:
    name = f"{NAMESPACE}/several"
    pieces = [piece async for piece in dlog_pieces(client, name, entries_max=2)]
    assert len(pieces) > 5
    async with quire.connect(uri, timeout=30) as other:
        found = [each for piece in pieces async for each in read_piece(other, piece)]
    assert found == await read(client, "several")


async def read_a_torn_log(client: Client, library: Library) -> None:
    """The writer was killed: its ledger and segment stay open."""
    with pytest.raises(JavaError):
        library.ask("halt")
    assert [each.payload for each in await read(client, "torn")] in ([], [b"before"])


def read_by_command(uri: str, expected: Sequence[DlogRecord]) -> None:
    log = f"{NAMESPACE}/several"
    place = f"distributedlog://{uri.removeprefix('zk://').partition('/')[0]}{log}"
    done = run_quire("--store", uri, "dlog", "cat", place)
    assert done.out.encode() == b"".join(each.payload + b"\n" for each in expected)
    third = expected[2]
    for start in (str(third.dlsn), f"txid:{third.txid}", f"seq:{third.sequence}"):
        words = ("dlog", "cat", log, "--from", start, "--limit", "2", "--json")
        first, second = run_quire("--store", uri, *words).json
        assert first["dlsn"] == str(third.dlsn)
        assert first["payload"] == third.payload.decode()
        assert (second["txid"], second["sequence"]) == (expected[3].txid, expected[3].sequence)
    refused: dict[tuple[str, ...], tuple[str, int]] = {
        (f"{NAMESPACE}/missing",): (f"log {NAMESPACE}/missing is not at", 3),
        ("several",): ("form /namespace/name", 2),
        (log, "--from", "here"): ("txid:N begins at a transaction id", 2),
        (log, "--from", "txid:999999"): ("no record with transaction id 999999 or above", 0),
        (log, "--from", "seq:999999"): ("no record with sequence number 999999 or above", 0),
    }
    for arguments, (why, code) in refused.items():
        done = run_quire("--store", uri, "dlog", "cat", *arguments)
        assert why in " ".join(done.err.split()), arguments
        assert (done.out, done.code) == ("", code), arguments


def show_progress(uri: str) -> None:
    """Output to a pipe, standard error to a terminal."""
    ours, theirs = os.openpty()
    log = f"{NAMESPACE}/several"
    command = [sys.executable, "-m", "quire", "--store", uri, "dlog", "cat", log]
    with os.fdopen(ours, "rb") as terminal:
        try:
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=theirs, check=True)
        finally:
            os.close(theirs)
        assert f"Reading {log}" in terminal.read1().decode()


@pytest.mark.timeout(900)  # the first time the jars are downloaded
def test_logs_of_distributedlog_are_read(tmp_path: Path) -> None:
    async def main(uri: str, library: Library) -> list[DlogRecord]:
        async with quire.connect(uri, timeout=30) as client:
            await read_whole_logs(client, library)
            await read_a_cut_log(client, library)
            await read_an_open_log(client, library)
            await read_pieces(uri, client)
            await read_a_torn_log(client, library)
            return await read(client, "several")

    with ApacheServers(tmp_path, install(), "db", 3) as servers:
        library = Library(servers)
        try:
            golden = library.ask("golden").replace("=", " ").split(" ")
            assert golden == FILE.read_text().split()
            expected = asyncio.run(main(servers.uri, library))
            read_by_command(servers.uri, expected)
            show_progress(servers.uri)
        finally:
            library.end()
