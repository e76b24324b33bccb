"""Callers that are cancelled harm nobody."""

from __future__ import annotations

import asyncio

import pytest

from tests.contract.bookie.frames import KEY, LEDGER, SEALER, ids, run_of
from tests.contract.bookie.subjects import SOON, Run, Subject


@pytest.mark.parametrize("steps", range(4))
def test_cancelled_calls_are_harmless(run: Run, steps: int) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        await bookie.add(LEDGER, KEY, run_of(0))
        before = asyncio.ensure_future(bookie.add(LEDGER, KEY, run_of(1)))
        doomed: list[asyncio.Task[object]] = [
            asyncio.ensure_future(bookie.add(LEDGER, KEY, run_of(2))),
            asyncio.create_task(bookie.read(LEDGER, 0, 9)),
            asyncio.create_task(bookie.read_tail(LEDGER)),
            asyncio.create_task(bookie.wait_tail(LEDGER, 99, 60.0)),
            asyncio.create_task(bookie.write_lac(LEDGER, KEY, SEALER.seal_lac(0))),
        ]
        after = asyncio.ensure_future(bookie.add(LEDGER, KEY, run_of(3)))
        for _ in range(steps):
            await asyncio.sleep(0)
        for task in doomed:
            task.cancel()
        async with asyncio.timeout(SOON):
            await asyncio.gather(*doomed, return_exceptions=True)
            await asyncio.gather(before, after)
            held = ids(await bookie.read(LEDGER, 0, 9))
        assert [entry for entry in held if entry != 2] == [0, 1, 3]
        assert doomed[3].cancelled()

    run(check)
