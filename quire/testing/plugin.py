"""Fixtures for pytest. In a `conftest.py`: `pytest_plugins = ["quire.testing.plugin"]`.

fixture              value
quire_cluster        a cluster: `MemoryCluster`, or with `--quire-cluster=processes` the
                     processes of the whole run, healed before each test
quire_log            a log's name that no other test uses
quire_client         an asynchronous client of the cluster (needs pytest-asyncio or anyio)
quire_sync_client    a blocking client of the cluster
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from quire import sync
from quire.client import Client
from quire.connection import connect
from quire.sync import SyncClient
from quire.testing.cluster import MemoryCluster
from quire.testing.processes import ProcessCluster

PROCESSES = "processes"

try:
    import pytest_asyncio
except ImportError:  # anyio takes plain fixtures that are asynchronous generators
    asynchronous_fixture: Callable[..., Any] = pytest.fixture
else:
    asynchronous_fixture = pytest_asyncio.fixture


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--quire-cluster` and `--quire-bookies`."""
    group = parser.getgroup("quire")
    group.addoption(
        "--quire-cluster",
        choices=("memory", PROCESSES),
        default="memory",
        help="what quire_cluster is: bookies in memory (default), or real processes",
    )
    group.addoption(
        "--quire-bookies",
        type=int,
        default=4,
        metavar="N",
        help="how many bookies quire_cluster has (default: 4)",
    )


@pytest.fixture(scope="session")
def quire_processes(request: pytest.FixtureRequest) -> Iterator[ProcessCluster]:
    """The processes that all tests of a run share."""
    with ProcessCluster(request.config.getoption("--quire-bookies")) as cluster:
        yield cluster


@pytest.fixture
def quire_cluster(request: pytest.FixtureRequest) -> Iterator[MemoryCluster | ProcessCluster]:
    """A cluster with all bookies up."""
    if request.config.getoption("--quire-cluster") == PROCESSES:
        processes: ProcessCluster = request.getfixturevalue("quire_processes")
        processes.heal()
        yield processes
    else:
        with MemoryCluster(request.config.getoption("--quire-bookies")) as cluster:
            yield cluster


@pytest.fixture
def quire_log(request: pytest.FixtureRequest) -> str:
    """A log's name that no other test uses."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", request.node.nodeid).strip("-")[-128:]


@asynchronous_fixture
async def quire_client(
    quire_cluster: MemoryCluster | ProcessCluster,
) -> AsyncIterator[Client]:
    """An asynchronous client, closed in order after the test."""
    async with connect(quire_cluster.store_uri) as client:
        yield client


@pytest.fixture
def quire_sync_client(quire_cluster: MemoryCluster | ProcessCluster) -> Iterator[SyncClient]:
    """A blocking client, closed in order after the test."""
    with sync.connect(quire_cluster.store_uri) as client:
        yield client
