"""A log whose reads need its password, on real processes with mutual TLS: its leaders, readers and
followers have it, bookies heal without it, and other peers get nothing.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import quire
from quire.client import Client
from quire.cluster import LocalCluster
from quire.errors import ConfigurationError, UnauthorizedError
from quire.ledger.remote import RemoteBookie
from quire.log.leader.log import Log
from quire.log.manifest.options import LogOptions
from tests.support.command import Finished
from tests.support.command import quire as run

PASSWORD = b"a secret of accounts"
LOG = "accounts"
OPTIONS = LogOptions(password=PASSWORD, batch_records=1)
FOLLOWERS = 3


async def command(cluster: LocalCluster, *arguments: str, password: bool = False) -> Finished:
    """Run `quire` as a client with the certificate of the cluster."""
    assert cluster.tls is not None
    tls = cluster.tls
    options = ["--tls-cert", str(tls.certificate), "--tls-key", str(tls.key), "--tls-ca"]
    given = ["--password", PASSWORD.decode()] if password else []
    return await asyncio.to_thread(
        run, *options, str(tls.ca), *arguments, *given, store=cluster.store_uri
    )


async def append(log: Log, numbers: range) -> None:
    for number in numbers:
        await log.append(b"%d" % number)


async def follow(client: Client, count: int) -> list[bytes]:
    """Return the first records, as a follower gets them."""
    found: list[bytes] = []
    async with client.read_log(LOG, follow=True, password=PASSWORD) as reader:
        async for record in reader:
            found.append(record.payload)
            if len(found) == count:
                return found
    raise AssertionError("the log ended")


async def payloads(client: Client) -> list[bytes]:
    async with client.read_log(LOG, password=PASSWORD) as reader:
        return [record.payload async for record in reader]


async def ledgers_of(client: Client) -> list[int]:
    return [each.ledger for each in (await client.log_info(LOG)).segments]


async def refuse_all(client: Client, ledgers: list[int], *, is_open: bool) -> None:
    """A client of the cluster without the password: by the library, and at the bookies' ports.

    What needs no entry needs no password: the end of a log that is closed is in its manifest.
    """
    for wrong in (b"", b"guessed"):
        for follows in (False, True):
            with pytest.raises(UnauthorizedError, match="or none: give password="):
                async with client.read_log(LOG, follow=follows, password=wrong) as reader:
                    await anext(aiter(reader))
        if not is_open:
            continue
        with pytest.raises(UnauthorizedError):
            await client.log_end(LOG, linearizable=True, password=wrong)
        with pytest.raises(UnauthorizedError):
            await client.snapshot_log(LOG, password=wrong)
        with pytest.raises(UnauthorizedError):
            await client.recover_log(LOG, password=wrong)
    with pytest.raises(ConfigurationError, match="need its password"):
        await client.open_log(LOG)
    asked = 0
    for ledger in ledgers:
        for bookie in (await client.ledger_info(ledger)).fragments[-1].bookies:
            link = client._roster.bookie(bookie)
            assert isinstance(link, RemoteBookie)
            for call in (
                link.read(ledger, 0, 0),
                link.read_tail(ledger),
                link.wait_tail(ledger, -1, 1.0),
            ):
                with pytest.raises(UnauthorizedError):
                    await call
            news = await link.subscribe(ledger, -1, 0, 10.0)
            assert news is not None
            with pytest.raises(UnauthorizedError):
                await news.next()
            asked += 1
    assert asked >= 3


async def heal(cluster: LocalCluster, client: Client, ledgers: list[int]) -> None:
    """Lose a bookie: others copy its entries, although their reads need a key."""
    fragments = [(await client.ledger_info(each)).fragments[-1].bookies for each in ledgers]
    lost = fragments[0][0]
    cluster.kill(cluster.index_of(lost))
    async with asyncio.timeout(60):
        while lost in [each.bookie for each in client.bookies()]:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    done = await command(cluster, "healing", "run", "--lost", lost, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["planned"] == found["done"] >= 1
    assert (found["left"], found["open"]) == ({}, [])
    for ledger in ledgers:
        info = await client.ledger_info(ledger)
        assert not any(lost in each.bookies for each in info.fragments)
        assert (await client.ledger_inventory(ledger)).shortages == []


@pytest.mark.timeout(300)
@pytest.mark.real_time
async def test_a_log_whose_reads_need_its_password(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    async with (
        LocalCluster(directory, bookies=4, tls=True) as cluster,
        quire.connect(str(directory)) as client,
        quire.connect(str(directory)) as other,
        quire.connect(str(directory)) as stranger,
    ):
        made = await command(cluster, "log", "create", LOG, "read_needs_password=true")
        assert made.code == 0, made.err
        with pytest.raises(ConfigurationError, match="reads of the log need its password"):
            await client.open_log(LOG)
        log = await client.open_log(LOG, OPTIONS)
        followers = [asyncio.create_task(follow(each, 40)) for each in (client, other) * FOLLOWERS]
        await append(log, range(15))
        await log.roll()
        await append(log, range(15, 30))
        ledgers = await ledgers_of(client)
        for ledger in ledgers:
            assert (await client.ledger_info(ledger)).read_needs_password
        await refuse_all(stranger, ledgers, is_open=True)
        log = await other.open_log(LOG, OPTIONS)  # a takeover: the last segment is recovered
        await append(log, range(30, 40))
        expected = [b"%d" % number for number in range(40)]
        assert await asyncio.gather(*followers) == [expected] * len(followers)
        await log.close()

        ledgers = await ledgers_of(client)
        await heal(cluster, client, ledgers)
        assert await payloads(client) == expected
        spans = await other.snapshot_log(LOG, password=PASSWORD)
        read = [
            payload
            for span in spans
            async for found in other.read_span(span, password=PASSWORD)
            for payload in found.payloads()
        ]
        assert read == expected
        await refuse_all(stranger, ledgers, is_open=False)  # also at the bookie with the copies

        shown = await command(cluster, "log", "read", LOG)
        assert (shown.code, "QUIRE_PASSWORD" in shown.err, shown.out) == (2, True, "")
        shown = await command(cluster, "log", "read", LOG, password=True)
        assert shown.out.split() == [str(number) for number in range(40)], shown.err
        appended = await command(cluster, "log", "append", LOG, "40")
        assert (appended.code, "need its password" in appended.err) == (2, True), appended.err
        appended = await command(cluster, "log", "append", LOG, "40", password=True)
        assert appended.code == 0, appended.err
        ledger = (await ledgers_of(client))[-1]
        assert (await client.ledger_info(ledger)).read_needs_password, "the option stays"
