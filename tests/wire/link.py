"""A bookie and its stub over a real connection, and a bookie whose requests wait at a gate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from quire.bookie import Bookie, BookieAddress
from quire.entry import DigestKind, LedgerId, Sealer
from quire.ledger.remote import RemoteBookie
from quire.run import pack_run
from quire.storage.serving.grpc_service import serve_bookie
from quire.storage.serving.limits import ServiceLimits
from quire.testing.bookie import MemoryBookie

SEALER = Sealer(7, DigestKind.CRC32C, b"secret")
KEY = SEALER.access_key
SOON = 10.0


def run_of(entry: int, size: int = 1) -> bytes:
    return pack_run([SEALER.seal(entry, entry - 1, 2**40, b"x" * size)])


class GatedBookie(MemoryBookie):
    """A bookie whose requests wait at a gate; it counts who waits there."""

    def __init__(self) -> None:
        super().__init__("b1")
        self.gate = asyncio.Event()
        self.waiting = 0
        self.waiting_max = 0
        self._arrival = asyncio.Event()
        self.before = self._pass

    async def _pass(self, method: str, ledger: LedgerId) -> None:
        self.waiting += 1
        self.waiting_max = max(self.waiting, self.waiting_max)
        self._arrival.set()
        try:
            await self.gate.wait()
        finally:
            self.waiting -= 1
            self._arrival.set()

    async def left(self) -> None:
        """Return once nothing waits at the gate."""
        async with asyncio.timeout(SOON):
            while self.waiting:
                self._arrival.clear()
                await self._arrival.wait()

    async def arrived(self, count: int) -> None:
        """Return once `count` requests wait at the gate."""
        async with asyncio.timeout(SOON):
            while self.waiting < count:
                self._arrival.clear()
                await self._arrival.wait()


LISTEN_RUNS: str | None = None
"""Where `served` takes runs as plain frames; set by the fixture `carrier`."""


def served(
    bookie: Bookie,
    listen: str = "127.0.0.1:0",
    *,
    limits: ServiceLimits | None = None,
    drain_seconds: float = 5.0,
) -> AbstractAsyncContextManager[BookieAddress]:
    """Serve a bookie as b1, its runs by the carrier that the test is about."""
    return serve_bookie(
        *(bookie, "b1", listen),
        listen_runs=LISTEN_RUNS,
        limits=limits,
        drain_seconds=drain_seconds,
    )


def far(address: BookieAddress | str, *, request_timeout: float = SOON) -> RemoteBookie:
    if isinstance(address, str):
        address = BookieAddress("b1", address, runs=address if LISTEN_RUNS else None)
    return RemoteBookie(address, request_timeout=request_timeout)


@asynccontextmanager
async def connected(
    bookie: MemoryBookie,
    *,
    limits: ServiceLimits | None = None,
    request_timeout: float = SOON,
    drain_seconds: float = 0.0,
) -> AsyncIterator[RemoteBookie]:
    async with served(bookie, limits=limits, drain_seconds=drain_seconds) as address:
        stub = far(address, request_timeout=request_timeout)
        try:
            yield stub
        finally:
            await stub.close()
