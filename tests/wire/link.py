"""A bookie and its stub over a real connection, and a bookie whose requests wait at a gate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from quire.bookie import BookieAddress
from quire.entry import DigestKind, LedgerId, Sealer
from quire.ledger.remote import RemoteBookie
from quire.run import pack_run
from quire.storage.service import ServiceLimits, serve_bookie
from tests.support.memory_bookie import MemoryBookie

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

    async def arrived(self, count: int) -> None:
        """Return once `count` requests wait at the gate."""
        async with asyncio.timeout(SOON):
            while self.waiting < count:
                self._arrival.clear()
                await self._arrival.wait()


def far(address: str, *, request_timeout: float = SOON, bookie: str = "b1") -> RemoteBookie:
    return RemoteBookie(BookieAddress(bookie, address), request_timeout=request_timeout)


@asynccontextmanager
async def connected(
    bookie: MemoryBookie,
    *,
    limits: ServiceLimits | None = None,
    request_timeout: float = SOON,
    drain_seconds: float = 0.0,
) -> AsyncIterator[RemoteBookie]:
    async with serve_bookie(bookie, "b1", limits=limits, drain_seconds=drain_seconds) as address:
        stub = far(address, request_timeout=request_timeout)
        try:
            yield stub
        finally:
            await stub.close()
