"""Bookies that refuse a program as it is: one costs nothing, and all of them end a call at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from quire.entry import LedgerId
from quire.errors import AppendOutcomeUnknownError, ClientRefusedError, QuireError, TlsMismatchError
from quire.ledger.catalog import LedgerCatalog
from tests.support.async_tests import run_virtually
from tests.support.memory_cluster import Hook, MemoryCluster

REFUSALS = (TlsMismatchError("b0", "takes TLS only"), ClientRefusedError("b0", "unknown"))


def refusing(error: QuireError) -> Hook:
    async def before(method: str, ledger: LedgerId) -> None:
        raise error

    return before


Refuse = Callable[[], None]


async def read_one(catalog: LedgerCatalog, ledger: LedgerId, refuse: Refuse) -> None:
    async with await catalog.open_without_recovery(ledger) as reader:
        refuse()
        await reader.read_entry(0)


async def follow(catalog: LedgerCatalog, ledger: LedgerId, refuse: Refuse) -> None:
    async with await catalog.open_without_recovery(ledger) as reader:
        refuse()
        async for _ in reader.follow_runs(1):
            pass


async def look_for_the_end(catalog: LedgerCatalog, ledger: LedgerId, refuse: Refuse) -> None:
    async with await catalog.open_without_recovery(ledger) as reader:
        refuse()
        await reader.last_acknowledged()


async def recover(catalog: LedgerCatalog, ledger: LedgerId, refuse: Refuse) -> None:
    refuse()
    await (await catalog.open(ledger)).close()


CALLS = (read_one, follow, look_for_the_end, recover)


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_each_bookie_refuses_ends_at_once(
    call: Callable[[LedgerCatalog, LedgerId, Refuse], Awaitable[None]], refusal: QuireError
) -> None:
    async def main() -> None:
        async with MemoryCluster(3) as cluster:
            writer = await cluster.catalog.create()
            await writer.append(b"0")
            await writer.append(b"1")  # confirms entry 0
            if call is read_one:
                await writer.close()  # so that the end needs no question

            def refuse() -> None:
                for bookie in cluster.bookies.values():
                    bookie.before = refusing(refusal)

            loop = asyncio.get_running_loop()
            begun = loop.time()
            with pytest.raises(type(refusal)):
                await call(cluster.client(), writer.ledger, refuse)
            assert loop.time() - begun < 1.0
            writer.abandon()

    run_virtually(main)


@pytest.mark.parametrize("refusal", REFUSALS)
def test_one_bookie_that_refuses_is_passed_over(refusal: QuireError) -> None:
    async def main() -> None:
        async with MemoryCluster(3) as cluster:
            writer = await cluster.catalog.create()
            await writer.append(b"0")
            await writer.close()

            def refuse() -> None:
                cluster.bookies["b0"].before = refusing(refusal)

            for call in CALLS[:1] + CALLS[2:]:
                await call(cluster.client(), writer.ledger, refuse)

    run_virtually(main)


def test_a_writer_that_is_refused_ends_and_names_the_cause() -> None:
    async def main() -> None:
        async with MemoryCluster(4) as cluster:
            writer = await cluster.catalog.create()
            for bookie in cluster.bookies.values():
                bookie.before = refusing(REFUSALS[0])
            loop = asyncio.get_running_loop()
            begun = loop.time()
            with pytest.raises(AppendOutcomeUnknownError, match="takes TLS only"):
                await writer.append(b"0")
            assert loop.time() - begun < 1.0
            writer.abandon()

    run_virtually(main)
