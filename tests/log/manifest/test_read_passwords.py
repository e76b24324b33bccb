"""Logs whose reads need the password: the option stays with the log, and reaches each ledger."""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import ConfigurationError, LevelNeededError, UnauthorizedError
from quire.ledger.read_keys import ReadKeys
from quire.log.manifest.options import LogOptions
from quire.metastore.cluster import Cluster
from quire.metastore.layout import CLUSTER
from tests.support.log_cluster import NAME, PATH, Client, LogCluster, run

PASSWORD = b"a secret"
SETTING = {"read_needs_password": "true"}


async def guarded(client: Client) -> list[bool]:
    """Whether reads of each segment need the password, in order."""
    metadata = [client.catalog.metadata(each.ledger) for each in (await client.manifest()).segments]
    return [(await each).read_needs_password for each in metadata]


def test_a_leader_with_the_option_leaves_it_to_all_later_leaders() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(password=PASSWORD, read_needs_password=True)
            await log.append(b"0")
            await log.roll()
            await log.append(b"1")
            assert (await client.manifest()).settings == SETTING
            other = cluster.new_client()
            with pytest.raises(ConfigurationError, match=r"LogOptions\(password=…\)"):
                await other.open()
            with pytest.raises(UnauthorizedError):
                await other.open(password=b"guessed")
            await log.append(b"2")  # no attempt has deposed it
            log = await other.open(password=PASSWORD)
            await log.append(b"3")
            assert await guarded(client) == [True, True, True]
            assert await client.read(password=PASSWORD) != []
            await log.close()

    run(main)


def test_a_log_that_says_no_is_written_for_all_readers() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            await client.logs.create(NAME, {"read_needs_password": "false"})
            log = await client.open(password=PASSWORD, read_needs_password=True)
            await log.append(b"0")
            assert await guarded(client) == [False]
            assert (await client.manifest()).settings == {"read_needs_password": "false"}
            await log.close()

    run(main)


@pytest.mark.parametrize("prepared", [False, True])
def test_the_option_holds_from_the_next_segment_on(prepared: bool) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(password=PASSWORD, roll_entries=10, batch_records=1)
            for _ in range(6 if prepared else 2):
                await log.append(b"x")
            await asyncio.sleep(1)
            assert len(await cluster.ledgers()) == 1 + prepared
            await client.logs.set_options(NAME, SETTING)
            await asyncio.sleep(1)
            await log.roll()
            await log.append(b"y")
            assert (await guarded(client))[:2] == [False, True]
            await log.close()

    run(main)


def test_a_leader_without_a_password_goes_on_as_it_was() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await log.append(b"0")
            await client.logs.set_options(NAME, SETTING)
            await asyncio.sleep(1)
            await log.roll()
            await log.append(b"1")
            assert await guarded(client) == [False, False]
            await log.close()

    run(main)


def test_parts_of_jobs_are_as_the_log_is() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            await client.logs.create(NAME, SETTING)
            ingest = client.logs.ingest(NAME)
            with pytest.raises(ConfigurationError, match="and none was given"):
                await ingest.create_part("job", LogOptions())
            part = await ingest.create_part("job", LogOptions(password=PASSWORD))
            assert part._metadata.read_needs_password
            part.abandon()

    run(main)


def test_a_rebuilt_log_has_the_option_of_its_ledgers() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(password=PASSWORD, read_needs_password=True)
            await log.append(b"0")
            await log.close()
            await cluster.store.delete(PATH)
            found = await client.logs.rebuild(NAME, password=PASSWORD)
            assert found.settings == SETTING

    run(main)


def test_the_option_needs_tls_and_the_level_before_a_leader_is_deposed() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, plain = cluster.new_client(), cluster.new_client()
            log = await client.open(password=PASSWORD)
            plain.catalog._keys = ReadKeys(has_tls=False)
            with pytest.raises(ConfigurationError, match="needs TLS"):
                await plain.logs.set_options(NAME, SETTING)
            with pytest.raises(ConfigurationError, match="needs TLS"):
                await plain.open(password=PASSWORD, read_needs_password=True)
            await cluster.store.create(CLUSTER, Cluster("c", level=1).encode())
            with pytest.raises(LevelNeededError, match="a password for reads"):
                await client.logs.create("other", SETTING)
            with pytest.raises(LevelNeededError, match="a password for reads"):
                await client.open(password=PASSWORD, read_needs_password=True)
            await log.append(b"still led")
            await log.close()

    run(main)
