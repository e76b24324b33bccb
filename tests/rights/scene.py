"""A metadata store with a table of rights and labelled ledgers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from quire.errors import NoSuchNodeError
from quire.metastore.cluster import Cluster
from quire.metastore.layout import CLUSTER, RIGHTS, ledger_path
from quire.metastore.memory import MemoryStore
from quire.rights.guard import Guard
from quire.rights.ledger_logs import LedgerLogs
from quire.rights.table import AccessRule, RightsTable, identity_named
from quire.rights.watch import RightsWatch
from tests.golden.metadata import LEDGER

APP = identity_named("quire://client/app")
OTHER = identity_named("quire://client/other")


class Scene:
    """A store, the watch of a server, and its guard."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.watch = RightsWatch(self.store)
        self.logs = LedgerLogs(self.store)
        self.looks: list[int] = []
        self.guard = Guard(self.watch, self._log_of, "b1")

    async def _log_of(self, ledger: int) -> str | None:
        self.looks.append(ledger)
        return await self.logs.log_of(ledger)

    async def begin(self, level: int = 2) -> None:
        await self.store.create(CLUSTER, Cluster("c", level=level).encode())

    async def set(self, *rules: AccessRule) -> None:
        """Have these rules in the store, and let the server see them."""
        await self.put(RightsTable(rules).encode())
        await self.watch.look()

    async def put(self, value: bytes) -> None:
        version = None
        with suppress(NoSuchNodeError):
            version = (await self.store.get(RIGHTS)).version
        if version is None:
            await self.store.create(RIGHTS, value)
        else:
            await self.store.put(RIGHTS, value, version)

    async def make_ledger(self, ledger: int, log: str | None) -> None:
        labels = {} if log is None else {"log": log}
        record = replace(LEDGER, ledger=ledger, custom_metadata=labels)
        await self.store.create(ledger_path(ledger), record.encode())


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    try:
        yield made
    finally:
        await made.watch.close()
        await made.store.close()
