"""The law of the metadata store, held against every implementation."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from tests.contract.metastore.two_clients import Run, Scenario
from tests.support.async_tests import run_virtually
from tests.support.store_backends import BACKENDS

DEADLINE_SECONDS = 30.0


@pytest.fixture(params=sorted(BACKENDS))
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Run a scenario with two clients of one fresh tree, in memory on virtual time."""

    async def body(scenario: Scenario) -> None:
        backend = BACKENDS[request.param](tmp_path)
        async with asyncio.timeout(DEADLINE_SECONDS):
            one, other = await backend.client(), await backend.client()
            try:
                await scenario(one, other, backend)
            finally:
                await other.close()
                await one.close()

    if request.param == "memory":
        return lambda scenario: run_virtually(partial(body, scenario))
    return lambda scenario: asyncio.run(body(scenario))
