"""A lake beside a cluster in memory, for the tests of tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

import quire.sync
from quire.sync import admin

TABLE = "sales.orders"


class Lake:
    """A cluster in memory, and a catalog in SQLite with its warehouse on the disk."""

    def __init__(self, client: quire.sync.SyncClient, path: Path) -> None:
        self.client = client
        self.properties = {
            "type": "sql",
            "uri": f"sqlite:///{path}/catalog.db",
            "warehouse": path.as_uri(),
        }

    def append(self, first: int, count: int, **options: Any) -> None:
        """Append numbered records in a segment of their own."""
        with self.client.open_log("orders", quire.LogOptions(**options)) as log:
            log.append_many([b"%d" % each for each in range(first, first + count)])

    def update(self, log: str = "orders", **options: Any) -> Any:
        return admin.update_table(
            self.client, log, TABLE, catalog="lake", properties=self.properties, **options
        )

    @property
    def table(self) -> Table:
        return load_catalog("lake", **self.properties).load_table(TABLE)

    def numbers(self) -> list[int]:
        """The payloads of the table as numbers, in no order of ours."""
        return [int(each) for each in self.rows()["payload"].to_pylist()]

    def rows(self) -> Any:
        return self.table.scan().to_arrow()
