"""What tests of outboxes do: rows that are inserted, and a relay that empties the outbox."""

from __future__ import annotations

import sqlite3
from typing import Any

import quire.sync.sql
from quire.sync import SyncClient

LOG = "orders"
INSERT = "INSERT INTO quire_outbox (log, payload) VALUES (%s, %s)"


def drain(client: SyncClient, connection: Any, **options: Any) -> int:
    return quire.sync.sql.relay(client, LOG, connection, follow=False, **options)


def insert_rows(outbox: sqlite3.Connection, *payloads: bytes) -> None:
    rows = [(LOG, each) for each in payloads]
    outbox.executemany("INSERT INTO quire_outbox (log, payload) VALUES (?, ?)", rows)
    outbox.commit()
