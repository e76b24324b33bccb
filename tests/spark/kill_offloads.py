"""Kills the Spark driver of `quire spark offload` again and again; compares log and cold tier.

    python -m tests.spark.kill_offloads --kills 20

Each driver is the command itself, with its JVM and its workers. It stops by itself at a point that
it was given, says so, and is killed there; or it is killed while its workers write.

    written    the workers have written the files of a round, no manifest names them
    named      the manifest names the files of a round, the bookies still have the ledgers
    doomed     the ledgers of a round are off the log, and not deleted
    swept      everything is moved, what earlier attempts left is still there
    writing    any moment behind the first new file

After each of them every record is in the log once, what the manifest names is there and says the
same, and nothing else than unnamed files is too much. The last job ends well, and has removed them.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import quire.sync
from quire import LogOptions
from quire.cli.root import main as command
from quire.sync import SyncLocalCluster
from tests.spark.drivers import GaveUpError, kill, start_driver, wait_for

STEPS: Final = {
    "written": ("quire.sync.offloads", "SyncOffload", "commit"),
    "named": ("quire.sync.offloads", "SyncOffload", "release"),
    "doomed": ("quire.log.maintenance.offload", "", "delete_doomed"),
    "swept": ("quire.sync.offloads", "SyncOffload", "gc"),
}
"""What a driver is about to call when it stops."""

WRITING: Final = "writing"
CORES: Final = 2
"""Segments of a round: a worker each."""
ROLL_ENTRIES: Final = 5
RECORDS: Final = 10
"""Of an entry."""
ATTEMPTS_MAX: Final = 5
"""At one kill: a job may be over before it comes to where it is to be killed."""


@dataclass(frozen=True, slots=True)
class Cold:
    """A log that is offloaded: what it must hold, and where to."""

    store: str
    log: str
    target: Path

    def write(self, first: int, segments: int) -> int:
        """Append whole segments of numbered records; returns the next number."""
        options = LogOptions(roll_entries=ROLL_ENTRIES)
        end = first + segments * ROLL_ENTRIES * RECORDS
        with (
            quire.sync.connect(self.store) as client,
            client.open_log(self.log, options) as leader,
        ):
            for start in range(first, end, RECORDS):
                leader.append_many([b"%d" % each for each in range(start, start + RECORDS)])
        return end

    def files(self) -> set[str]:
        """The names of all files of the tier."""
        return {each.name for each in self.target.rglob("*.parquet")}

    def check(self, records: int) -> set[str]:
        """Return the files that nobody names. Raises `AssertionError` for what must not be."""
        with quire.sync.connect(self.store) as client:
            manifest = client._logs.describe(self.log)
            ledgers = set(client.list_ledgers())
            found = [(each.offset, each.payload) for each in client.read_log(self.log)]
        assert found == [(each, b"%d" % each) for each in range(records)], "lost or doubled"
        named = {each.cold.name: each.cold.size for each in manifest.segments if each.cold}
        for name, size in named.items():
            (file,) = self.target.rglob(name)
            assert file.stat().st_size == size, f"{name} is not what the manifest says"
        gone = [
            each.number for each in manifest.segments if each.is_hot and each.ledger not in ledgers
        ]
        assert not gone, f"the ledgers of segments {gone} are gone, their files do not count"
        return self.files() - set(named)

    def check_moved(self, records: int) -> None:
        """After a whole job: everything closed is cold, nothing is left over on either side."""
        assert self.check(records) == set(), "files that nobody names"
        with quire.sync.connect(self.store) as client:
            manifest = client._logs.describe(self.log)
            ledgers = set(client.list_ledgers())
        assert [each.number for each in manifest.segments if each.end and each.is_hot] == []
        assert manifest.doomed == ()
        assert not ledgers & {each.ledger for each in manifest.segments if each.end}


def killed(cold: Cold, point: str, times: int, directory: Path, pause: float = 0.0) -> bool:
    """Run the job in a driver and kill it at a point; False when it was over before."""
    for _ in range(ATTEMPTS_MAX):
        with contextlib.suppress(GaveUpError):
            return _killed(cold, point, times, directory, pause)
    raise AssertionError("Spark never got its workers started")


def _killed(cold: Cold, point: str, times: int, directory: Path, pause: float) -> bool:
    before, reached, said = cold.files(), directory / "reached", directory / "offload.log"
    reached.unlink(missing_ok=True)
    given = ("--store", cold.store, "--log", cold.log, "--to", str(cold.target))
    stop = ("--point", point, "--times", str(times), "--reached", str(reached))
    process = start_driver("tests.spark.kill_offloads", *stop, *given, log=said)

    def is_there() -> bool:
        writes = point == WRITING and cold.files() > before
        return reached.exists() or writes or process.poll() == 0

    try:
        wait_for(process, said, is_there)
        threading.Event().wait(pause)
        return process.poll() is None
    finally:
        kill(process)


def drive(cold: Cold, point: str, times: int, reached: Path) -> None:
    """Be the driver: the command, which stops for ever at a point."""
    if point in STEPS:
        module, owner, name = STEPS[point]
        place: Any = sys.modules[module]
        stop_before(getattr(place, owner) if owner else place, name, times, reached.touch)
    master = f"local[{CORES}]"
    given = ["spark", "offload", cold.log, "--to", str(cold.target), "--master", master]
    command(["--store", cold.store, *given])


def stop_before(place: Any, name: str, times: int, say: Callable[[], None]) -> None:
    """Have the so-many-th call of a function never begin."""
    real, calls = getattr(place, name), iter(range(times))

    def stopping(*given: Any, **options: Any) -> Any:
        if next(calls, times) == times - 1:
            say()
            threading.Event().wait()
        return real(*given, **options)

    setattr(place, name, stopping)


def rampage(cold: Cold, kills: int, rng: random.Random, directory: Path) -> None:
    """Kill so many drivers, with more to be moved before each; then let one come to its end."""
    records, left = 0, 0
    for number in range(kills):
        records = cold.write(records, CORES + 1)
        for _ in range(ATTEMPTS_MAX):
            point = rng.choice([*STEPS, WRITING])
            times = 1 if point == "swept" else rng.randint(1, 2)
            if killed(cold, point, times, directory, rng.random() if point == WRITING else 0.0):
                break
        else:
            raise AssertionError("the job was over every time before it could be killed")
        unnamed = cold.check(records)
        left = max(left, len(unnamed))
        print(
            f"kill {number + 1} ({point}, {times}): {records} records, {len(unnamed)} left",
            flush=True,
        )
    assert not killed(cold, "never", 1, directory), "the last job was to end by itself"
    cold.check_moved(records)
    print(f"{kills} kills: {records} records once, up to {left} files left over, all removed")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--point", help=argparse.SUPPRESS)
    parser.add_argument("--times", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--reached", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    parser.add_argument("--log", help=argparse.SUPPRESS)
    parser.add_argument("--to", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.point:
        drive(Cold(given.store, given.log, given.to), given.point, given.times, given.reached)
        return
    with (
        tempfile.TemporaryDirectory(prefix="quire-kill-") as scratch,
        SyncLocalCluster(Path(scratch) / "cluster", bookies=3) as cluster,
    ):
        cold = Cold(cluster.store_uri, "cold", Path(scratch) / "tier")
        rampage(cold, given.kills, random.Random(given.seed), Path(scratch))


if __name__ == "__main__":
    main()
