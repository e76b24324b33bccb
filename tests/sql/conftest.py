"""One PostgreSQL server for the tests of a worker, and outboxes that are there and empty."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

import quire.sync
from quire.sync import SyncClient
from quire.testing import MemoryCluster
from tests.sql.outboxes import drain
from tests.support.postgres import Postgres, postgres


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    with postgres() as started:
        yield started


@pytest.fixture
def client() -> Iterator[SyncClient]:
    with MemoryCluster() as cluster, quire.sync.connect(cluster.store_uri) as connected:
        yield connected


@pytest.fixture
def dsn(server: Postgres, client: SyncClient) -> str:
    """A schema whose outbox is there and empty."""
    made = server.new_schema()
    drain(client, lambda: psycopg.connect(made))
    return made


@pytest.fixture
def outbox(client: SyncClient, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A database in SQLite whose outbox is there and empty."""
    with closing(sqlite3.connect(tmp_path / "outbox.db", check_same_thread=False)) as made:
        drain(client, made, mark=True)
        yield made
