"""Replicas of a service whose state is its own history, and that they agree."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from quire.election.election import Election
from quire.log.manifest.options import LogOptions
from quire.log.records.keyring import Keyring
from quire.service import Applied, Role, Service, ServiceOptions
from tests.support.log_cluster import Client, LogCluster, eventually

NAME = "s"
SESSION_SECONDS = 3.0


class Ledger:
    """A state machine that is its own history: nothing can be lost or doubled unnoticed."""

    def __init__(self) -> None:
        self.commands: list[bytes] = []
        self.epochs: list[int] = []
        self.restored = 0
        self.defect: Exception = ZeroDivisionError()

    def apply(self, command: bytes, at: Applied) -> int:
        if command == b"defect":
            raise self.defect
        self.commands.append(command)
        self.epochs.append(at.epoch)
        return len(self.commands)

    def snapshot(self) -> bytes:
        return b",".join(self.commands)

    def restore(self, state: bytes) -> None:
        self.restored += 1
        self.commands = state.split(b",")


class Replica:
    def __init__(
        self,
        cluster: LogCluster,
        name: str,
        snapshot_records: int = 10_000,
        keyring: Keyring | None = None,
        **log_options: Any,
    ) -> None:
        self.client: Client = cluster.new_client()
        self.state = Ledger()
        store = self.client.store
        election = Election(
            store, NAME, name, rng=random.Random(name), session_timeout=SESSION_SECONDS
        )
        log = LogOptions(open_timeout=20.0, keyring=keyring, **log_options)
        options = ServiceOptions(log, snapshot_records)
        self.service: Service[int] = Service(
            self.state, election, self.client.logs, self.client.catalog, store, options
        )


async def replicas(cluster: LogCluster, count: int = 3, **options: Any) -> list[Replica]:
    """Replicas of which the first leads."""
    found = []
    for number in range(count):
        found.append(Replica(cluster, f"r{number}", **options))
        await found[-1].service.__aenter__()
        await asyncio.sleep(0.5)
    await found[0].service.wait_role(Role.LEADER)
    return found


async def agree(found: list[Replica], count: int) -> None:
    await eventually(lambda: all(len(each.state.commands) >= count for each in found))
    assert all(each.state.commands == found[0].state.commands for each in found)
