"""Recovery on virtual time, and bookies that fail or act at a chosen call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from quire.entry import LedgerId
from quire.testing.sim.policy import Policy
from tests.support.memory_cluster import Hook, MemoryCluster
from tests.support.virtual import virtually


def scenario(size: int, body: Callable[[MemoryCluster], Awaitable[None]], seed: int = 0) -> None:
    """Run a scenario on virtual time in a cluster of `size` bookies."""

    async def main() -> None:
        async with MemoryCluster(size, seed=seed) as cluster:
            await body(cluster)

    virtually(main, seed, Policy.WALK if seed else Policy.INTERLEAVE)


def failing(error: Exception, *methods: str) -> Hook:
    async def before(method: str, ledger: LedgerId) -> None:
        if method in methods:
            raise error

    return before


def after_calls(method: str, count: int, action: Callable[[], Awaitable[None]]) -> Hook:
    """A hook that acts once, before the call number `count` (from 1) of a method."""
    seen = 0

    async def before(called: str, ledger: LedgerId) -> None:
        nonlocal seen
        seen += called == method
        if called == method and seen == count:
            await action()

    return before
