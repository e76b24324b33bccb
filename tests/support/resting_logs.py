"""Logs of a cluster in memory that rest after some seconds of virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

from quire.log.leader.log import Log
from tests.support.log_cluster import (
    Client,
)

REST = 5.0


async def open_log(client: Client, **options: Any) -> Log:
    options.setdefault("rest_seconds", REST)
    return await client.open(**options)


def rests(log: Log) -> bool:
    return log._resting is not None


def log_task(name: str) -> asyncio.Task[Any]:
    (task,) = (each for each in asyncio.all_tasks() if each.get_name() == name)
    return task


async def rest(log: Log) -> None:
    """Wait until a log rests."""
    await asyncio.sleep(3 * REST)
    assert rests(log)
