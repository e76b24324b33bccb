"""Kill −9 of applications, relays and consumers, at random: rows → outbox → log → table, each once.

    python -m tests.sql.kills --kills 1000

An application inserts numbers into a table and into the outbox in one transaction, and rolls some
back. A relay appends the outbox to a log, and a consumer puts the log into a table. Two processes
of each kind run on real bookies and a real PostgreSQL. After the last kill everything drains. Then
the numbers that were committed, the log, and the consumer's table must be the same, each once.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import psycopg

import quire.sync.sql
from quire.sync import Record
from quire.testing.processes import ProcessCluster
from tests.support.postgres import postgres

LOG: Final = "orders"
ROLES: Final = ("application", "relay", "consumer") * 2
SESSION_SECONDS: Final = 1.0
STALL_SECONDS: Final = 300.0
"""Without progress for so long the run has failed. A full machine needs half a minute to start a
process, and both of a kind may be starting.
"""

SCHEMA: Final = """
CREATE TABLE written (number BIGINT PRIMARY KEY, writer INTEGER NOT NULL);
CREATE TABLE effects (at BIGINT PRIMARY KEY, number BIGINT NOT NULL UNIQUE);
CREATE TABLE total (numbers BIGINT NOT NULL);
INSERT INTO total VALUES (0);
CREATE SEQUENCE numbers;
"""


def application(dsn: str, writer: int) -> None:
    """Write rows until killed; one of ten transactions is rolled back."""
    rng = random.Random()
    with psycopg.connect(dsn) as connection:
        while True:
            for _ in range(rng.randint(1, 5)):
                (number,) = connection.execute("SELECT nextval('numbers')").fetchone() or (0,)
                connection.execute("INSERT INTO written VALUES (%s, %s)", (number, writer))
                connection.execute(
                    "INSERT INTO quire_outbox (log, payload) VALUES (%s, %s)",
                    (LOG, b"%d" % number),
                )
            if rng.random() < 0.1:
                connection.rollback()
            else:
                connection.commit()


def relay(store: str, dsn: str, *, follow: bool = True) -> int:
    with quire.sync.connect(store) as client:
        return quire.sync.sql.relay(
            *(client, LOG, lambda: psycopg.connect(dsn)),
            follow=follow,
            records=50,
            seconds=0.02,
            session_timeout=SESSION_SECONDS,
        )


def consumer(store: str, dsn: str, *, follow: bool = True) -> int:
    def apply(connection: psycopg.Connection[Any], records: Sequence[Record]) -> None:
        for each in records:
            found = (each.offset, int(each.payload))
            connection.execute("INSERT INTO effects VALUES (%s, %s)", found)
        connection.execute("UPDATE total SET numbers = numbers + %s", (len(records),))

    with quire.sync.connect(store) as client:
        return quire.sync.sql.consume(
            *(client, LOG, lambda: psycopg.connect(dsn), apply),
            consumer="billing",
            follow=follow,
            records=50,
            seconds=0.02,
            session_timeout=SESSION_SECONDS,
        )


class Workers:
    """The processes, by place in `ROLES`."""

    def __init__(self, store: str, dsn: str, directory: Path) -> None:
        self._arguments = ["--store", store, "--dsn", dsn]
        self._errors = directory / "workers.log"
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, place: int) -> None:
        command = [sys.executable, "-m", "tests.sql.kills", "--role", ROLES[place]]
        with open(self._errors, "ab") as errors:
            self._running[place] = subprocess.Popen(
                [*command, "--writer", str(place), *self._arguments], stderr=errors
            )

    def kill(self, place: int) -> None:
        process = self._running.pop(place)
        if (code := process.poll()) is not None:
            raise AssertionError(f"the {ROLES[place]} ended with {code} by itself:\n{self.told()}")
        process.send_signal(signal.SIGKILL)
        process.wait()

    def told(self) -> str:
        """What the processes wrote last."""
        return self._errors.read_text(encoding="utf-8", errors="replace")[-4000:]

    def end(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()
        self._running.clear()


def run(kills: int, seed: int) -> dict[str, int]:
    """Kill so many processes, and return the counts that were compared. Raises when they differ."""
    rng, killed = random.Random(seed), dict.fromkeys(ROLES, 0)
    with postgres() as server, ProcessCluster(3) as cluster:
        dsn = server.new_schema()
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(SCHEMA)
            relay(cluster.store_uri, dsn, follow=False)  # makes the outbox
            workers = Workers(cluster.store_uri, dsn, server.directory)
            try:
                for place in range(len(ROLES)):
                    workers.start(place)
                seen = 0
                for number in range(kills):
                    seen = wait_for(connection, seen + rng.randint(1, 200), workers)
                    place = rng.randrange(len(ROLES))
                    workers.kill(place)
                    workers.start(place)
                    killed[ROLES[place]] += 1
                    if (number + 1) % 50 == 0:
                        print(f"{number + 1} kills, {seen} rows", file=sys.stderr, flush=True)
            finally:
                workers.end()
            relay(cluster.store_uri, dsn, follow=False)
            consumer(cluster.store_uri, dsn, follow=False)
            return compare(connection, cluster.store_uri) | {"kills": kills} | killed


def wait_for(connection: psycopg.Connection[Any], count: int, workers: Workers) -> int:
    """Return how many rows have arrived, once there are so many."""
    stalls_at = time.monotonic() + STALL_SECONDS
    while time.monotonic() < stalls_at:
        (found,) = connection.execute("SELECT numbers FROM total").fetchone() or (0,)
        if found >= count:
            return int(found)
        time.sleep(0.02)
    raise AssertionError(
        f"{count} rows did not arrive within {STALL_SECONDS:.0f} s: {found} did\n{workers.told()}"
    )


def compare(connection: psycopg.Connection[Any], store: str) -> dict[str, int]:
    """Compare the three places where a number may be."""
    written = {number for (number,) in connection.execute("SELECT number FROM written")}
    rows = connection.execute("SELECT at, number FROM effects ORDER BY at").fetchall()
    with quire.sync.connect(store) as client:
        records = [(each.offset, int(each.payload)) for each in client.read_log(LOG)]
    assert rows == records, "the consumer's table is not the log"
    numbers = [number for _, number in records]
    assert len(numbers) == len(set(numbers)), "a row is in the log twice"
    assert set(numbers) == written, "the log is not the committed rows"
    (total,) = connection.execute("SELECT numbers FROM total").fetchone() or (0,)
    assert total == len(written), "an effect was repeated"
    (left,) = connection.execute("SELECT count(*) FROM quire_outbox").fetchone() or (1,)
    assert left == 0, "rows are left in the outbox"
    return {"rows": total}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--role", choices=sorted(set(ROLES)))
    parser.add_argument("--store")
    parser.add_argument("--dsn")
    parser.add_argument("--writer", type=int)
    given = parser.parse_args()
    if given.role == "application":
        application(given.dsn, given.writer)
    elif given.role is not None:
        {"relay": relay, "consumer": consumer}[given.role](given.store, given.dsn)
    else:
        print(run(given.kills, given.seed))


if __name__ == "__main__":
    main()
