"""What befalls the gateways: they are killed, paused and drained in turn."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import httpx

from quire.cli.exits import INTERRUPTED
from tests.gateway.process import Addresses, GatewayProcess
from tests.gateway.soak.clients import LOG, Writers

T = TypeVar("T")

STRIKES: Final = ("killed", "paused", "drained")
OF_THE_OWNER: Final = 0.75
"""Share of the strikes that hit the gateway which writes the log."""
LONG_PAUSES: Final = 0.6
"""Share of the pauses that last until every writer goes on with another gateway."""
DRAIN_SECONDS_MAX: Final = 60.0
PROGRESS_SECONDS: Final = 10.0
"""Between two lines about the progress."""


class Gateways:
    """Gateways as processes, each with the same ports in all its lives."""

    def __init__(self, store: str, directory: Path, count: int) -> None:
        self._processes = [
            GatewayProcess(store, directory / f"gateway-{number}.log") for number in range(count)
        ]
        self.addresses: list[Addresses] = []

    async def start(self) -> None:
        """Start all, on free ports, which they keep from now on."""
        found = await asyncio.gather(*[_to_its_end(each.start) for each in self._processes])
        for process, addresses in zip(self._processes, found, strict=True):
            ports = tuple(int(each.rpartition(":")[2]) for each in addresses)
            process.keep((ports[0], ports[1], ports[2]))
            self.addresses.append(addresses)

    async def owner(self) -> int | None:
        """The number of the gateway that says it writes the log; `None` without one."""
        async with httpx.AsyncClient(timeout=5) as client:
            for number, each in enumerate(self.addresses):
                try:
                    status = (await client.get(f"{each.http}/v1/status")).json()
                except httpx.HTTPError:
                    continue
                if any(log["name"] == LOG for log in status["logs"]):
                    return number
        return None

    async def kill(self, number: int) -> None:
        """Kill a gateway, and start it again."""
        self._processes[number].signal(signal.SIGKILL)
        await asyncio.to_thread(self._processes[number].wait, DRAIN_SECONDS_MAX)
        await _to_its_end(self._processes[number].start)

    async def drain(self, number: int, *, again: bool = True) -> None:
        """Ask a gateway to end: it hands its logs over. Then start it again, if it is to.

        Raises:
            RuntimeError: it did not end in order.
        """
        self._processes[number].signal(signal.SIGTERM)
        code = await asyncio.to_thread(self._processes[number].wait, DRAIN_SECONDS_MAX)
        if code != INTERRUPTED:
            raise RuntimeError(f"the gateway {number} ended with {code} when it was drained")
        if again:
            await _to_its_end(self._processes[number].start)

    def pause(self, number: int) -> None:
        """Stop a gateway where it is."""
        self._processes[number].signal(signal.SIGSTOP)

    def resume(self, number: int) -> None:
        """Let it go on."""
        self._processes[number].signal(signal.SIGCONT)

    def end(self) -> None:
        """Kill all."""
        for process in self._processes:
            process.end()

    def __len__(self) -> int:
        return len(self._processes)


async def _to_its_end(start: Callable[[], T]) -> T:
    """Start a process in a thread, which a cancellation waits for: else the process would stay."""
    starting = asyncio.ensure_future(asyncio.to_thread(start))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait([starting])
        raise


async def storm(
    gateways: Gateways, writers: Writers, seconds: float, strikes: int, rng: random.Random
) -> Counter[str]:
    """Strike gateways until both bounds are met; after each strike every writer must go on.

    Returns how often each strike was made.
    """
    clock = asyncio.get_running_loop().time
    end, told = clock() + seconds, clock()
    made: Counter[str] = Counter()
    await writers.progress()
    while clock() < end or _count(made) < strikes:
        kind = STRIKES[_count(made) % len(STRIKES)]
        owner = await gateways.owner()
        struck = owner if rng.random() < OF_THE_OWNER else None
        number = rng.randrange(len(gateways)) if struck is None else struck
        await strike(gateways, writers, kind, number, rng)
        made[kind] += 1
        made["owners"] += number == owner
        await writers.progress()
        if clock() - told >= PROGRESS_SECONDS:
            told = clock()
            print(f"{summary(made)}; {writers.count()} records acknowledged", flush=True)
    return made


async def strike(
    gateways: Gateways, writers: Writers, kind: str, number: int, rng: random.Random
) -> None:
    """Kill, pause or drain a gateway. It serves again, or is being taken back, at the return."""
    await asyncio.sleep(rng.uniform(0, 0.5))
    if kind == "killed":
        await gateways.kill(number)
    elif kind == "drained":
        await gateways.drain(number)
    else:
        gateways.pause(number)
        try:
            if rng.random() < LONG_PAUSES:
                await writers.progress()
            else:
                await asyncio.sleep(rng.uniform(0, 3))
        finally:
            gateways.resume(number)


def summary(made: Counter[str]) -> str:
    """How often each strike was made, in words."""
    kinds = ", ".join(f"{made[kind]} {kind}" for kind in STRIKES)
    return f"gateways: {kinds} ({made['owners']} of them while they wrote the log)"


def _count(made: Counter[str]) -> int:
    return sum(made[kind] for kind in STRIKES)
