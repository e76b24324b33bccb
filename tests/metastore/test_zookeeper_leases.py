"""When a ZooKeeper lease ends whose connection was lost."""

from __future__ import annotations

import asyncio
import time

from kazoo.client import KazooState
from kazoo.protocol.states import KeeperState

from quire.metastore.zookeeper_connection import ZooKeeperConnection
from quire.metastore.zookeeper_uri import parse_uri

URI = "zk://127.0.0.1:1/root"
HOUR = 3600.0
DEADLINE_SECONDS = 5.0


def lease() -> ZooKeeperConnection:
    """A lease of an hour that was not started."""
    return ZooKeeperConnection(URI, parse_uri(URI), HOUR, expires=True)


def lose_connection(connection: ZooKeeperConnection, *, silent_for: float) -> None:
    client = connection._client
    client.handler.heard_at = time.monotonic() - silent_for
    connection._follow_state(client, KazooState.SUSPENDED, KeeperState.CONNECTING)


def test_a_lease_ends_by_the_last_answer_and_not_by_the_lost_connection() -> None:
    """kazoo notices a partition after two thirds of the session; the server counts from before."""

    async def main() -> None:
        connection = lease()
        lose_connection(connection, silent_for=HOUR)
        async with asyncio.timeout(DEADLINE_SECONDS):
            await connection.over.wait()
        await connection.close()

    asyncio.run(main())


def test_a_lease_goes_on_while_its_time_lasts() -> None:
    async def main() -> None:
        connection = lease()
        lose_connection(connection, silent_for=HOUR / 2)
        alarm = connection._alarm
        assert alarm is not None
        assert alarm.when() - asyncio.get_running_loop().time() <= HOUR / 2
        assert not connection.is_over
        connection._follow_state(connection._client, KazooState.CONNECTED, KeeperState.CONNECTED)
        assert alarm.cancelled()
        await connection.close()

    asyncio.run(main())


def test_a_lease_that_was_never_heard_of_waits_for_no_more_than_its_time() -> None:
    async def main() -> None:
        connection = lease()
        connection._follow_state(connection._client, KazooState.SUSPENDED, KeeperState.CONNECTING)
        alarm = connection._alarm
        assert alarm is not None
        assert alarm.when() - asyncio.get_running_loop().time() <= HOUR
        await connection.close()

    asyncio.run(main())
