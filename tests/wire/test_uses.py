"""A served bookie tells which connections write, read and follow its ledgers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from quire.bookie import LedgerUse, UseKind
from quire.errors import LedgerFencedError
from quire.ledger.remote import RemoteBookie
from quire.storage.serving.grpc_service import serve_bookie
from quire.testing.bookie import MemoryBookie
from tests.wire.link import KEY, SOON, run_of
from tests.wire.test_slow_requests import HERE, by_each_carrier

pytestmark = pytest.mark.real_time


async def until(
    stub: RemoteBookie, holds: Callable[[set[tuple[int, UseKind]]], bool]
) -> tuple[LedgerUse, ...]:
    """Ask until the uses are as wanted: nothing tells a peer that another one has come or gone."""
    async with asyncio.timeout(SOON):
        while True:
            uses = (await stub.info()).in_use.uses
            if holds({(each.ledger, each.kind) for each in uses}):
                return uses


@by_each_carrier
async def test_a_writer_a_reader_and_a_follower_are_told(runs: str | None) -> None:
    async with serve_bookie(MemoryBookie("b1"), "b1", HERE, runs) as address:
        writer, reader = RemoteBookie(address), RemoteBookie(address)
        assert (await reader.info()).in_use.uses == ()
        await writer.add(7, KEY, run_of(0))
        await reader.read(7, 0, 0)
        following = asyncio.ensure_future(reader.wait_tail(8, 0, SOON))
        wanted = {(7, UseKind.WRITES), (7, UseKind.READS), (8, UseKind.FOLLOWS)}
        uses = await until(reader, lambda found: found == wanted)
        assert all("127.0.0.1:" in each.peer for each in uses)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await until(reader, lambda found: found == {(7, UseKind.WRITES), (7, UseKind.READS)})
        await writer.close()
        await until(reader, lambda found: found == {(7, UseKind.READS)})
        await reader.close()


@by_each_carrier
async def test_a_refused_append_makes_no_writer(runs: str | None) -> None:
    async with serve_bookie(MemoryBookie("b1"), "b1", HERE, runs) as address:
        stub = RemoteBookie(address)
        await stub.read_tail(7, fence_key=KEY)
        with pytest.raises(LedgerFencedError):
            await stub.add(7, KEY, run_of(0))
        assert (await stub.info()).in_use.uses == ()
        await stub.add(7, KEY, run_of(0), recovery=True)
        (use,) = (await stub.info()).in_use.uses
        assert use.kind is UseKind.RECOVERS
        await stub.close()
