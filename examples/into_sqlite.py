"""A follower that puts every record of a log into a SQLite table exactly once.

    quire cluster up                                  # in another terminal
    python examples/into_sqlite.py orders orders.db

The row and the place after it are written in one transaction of the database. A crash leaves both
or neither, so the next run continues after the last row.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import quire.sync
from quire import BEGINNING, Position

SCHEMA = """
CREATE TABLE IF NOT EXISTS rows (at_offset INTEGER PRIMARY KEY, payload BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS place (log TEXT PRIMARY KEY, log_id TEXT NOT NULL, next TEXT NOT NULL);
"""


@contextmanager
def database(path: str) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as opened:
        opened.executescript(SCHEMA)
        yield opened


def place(rows: sqlite3.Connection, log: str) -> tuple[str | None, Position]:
    """Return the log's id and the next position; before the first row, no id and `BEGINNING`."""
    found = rows.execute("SELECT log_id, next FROM place WHERE log = ?", (log,)).fetchone()
    return (found[0], Position.parse(found[1])) if found else (None, BEGINNING)


def copy(store: str, log: str, path: str, *, follow: bool = True) -> None:
    """Copy records from where the database stands; with `follow`, until the log is sealed.

    Raises:
        LogReplacedError: the log was deleted and created again: its rows are of another log.
    """
    with database(path) as rows, quire.sync.connect(store) as client:
        log_id, start = place(rows, log)
        with client.read_log(log, start, log_id=log_id, follow=follow) as reader:
            for record in reader:
                with rows:  # one transaction
                    rows.execute("INSERT INTO rows VALUES (?, ?)", (record.offset, record.payload))
                    rows.execute(
                        "INSERT OR REPLACE INTO place VALUES (?, ?, ?)",
                        (log, reader.log_id, str(record.position.after)),
                    )


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        copy("./quire-data", sys.argv[1], sys.argv[2])
