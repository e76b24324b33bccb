"""What measured constants say of clusters that no machine here can hold.

    python -m benchmarks.projection [--bookies 1000] [--ledgers 1000000]

Every figure is a constant of docs/performance.md, multiplied: processor time of an append from the
record of `make bench-peers`, times and memory of an auditor from `benchmarks.million_ledgers`. A
projection assumes that costs grow as the table "How cost grows" says, that a bookie has a core of
its own, that networks, disks and the metadata store are not the bound, and that work is spread
evenly. It is no measurement.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

RECORD: Final = Path(__file__).parent / "peers" / "record.json"
WORKLOAD: Final = "ledger: 1 KiB, 1,000 in flight"
COPIES: Final = 3
KIB: Final = 1024
MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Constants:
    """What was measured, in seconds and bytes. The defaults are of `benchmarks.million_ledgers`."""

    client_append: float
    """Of a client's processor, for an entry of 1 KiB."""
    bookies_append: float
    """Of the processors of all bookies that store it."""
    written_per_byte: float
    """Bytes on all disks for a byte of payload."""
    indexed: float = 31e-6
    """Of the auditor's processor, for each ledger that it indexes at its start."""
    stored: float = 1 / 4_342
    """To read a record from the metadata store."""
    index_bytes: float = 77.0
    """Of the auditor's memory, for each ledger."""
    quiet_round: float = 14e-9
    """Of the auditor's processor, for each ledger, in a round without news."""
    urgency: float = 0.28 / 59_912
    """For each ledger of a lost bookie, before the first request."""
    copied_bytes: float = 32 * MIB
    """A second, by each bookie: `upkeep-bytes-per-second`, its default."""
    delay: float = 600.0
    """Before the ledgers of a missing bookie are copied: `--healing-delay`, its default."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster that is projected."""

    bookies: int
    ledgers: int
    copies: int = COPIES
    ledger_bytes: int = 64 * MIB


@dataclass(frozen=True, slots=True)
class Projection:
    """What the constants say of a cluster."""

    appends: float
    """A second, of entries of 1 KiB, with the core of each bookie busy."""
    client_cores: float
    """Of the clients that make so many."""
    disk_bytes: float
    """Written a second by each bookie meanwhile."""
    index_bytes: float
    """Memory of the auditor's index."""
    survey_seconds: float
    """From the auditor's start to its index."""
    round_seconds: float
    """Of a round without news."""
    lost_ledgers: int
    """Ledgers that have a copy on one bookie."""
    first_request_seconds: float
    """From the end of the delay to the first request."""
    healed_seconds: float
    """From the loss of a bookie until all its copies are elsewhere."""


def measured(record: Path = RECORD) -> Constants:
    """Return the constants, those of appends as medians of a record of `make bench-peers`."""
    runs = [
        run
        for run in json.loads(record.read_text())["runs"]
        if run["peer"] == "quire" and run["workload"] == WORKLOAD
    ]

    def median(name: str) -> float:
        return float(statistics.median(run[name] for run in runs))

    return Constants(
        client_append=median("client_us") / 1e6,
        bookies_append=median("servers_us") / 1e6,
        written_per_byte=median("written_per_byte"),
    )


def project(cluster: Cluster, known: Constants) -> Projection:
    """Return what the constants say. A cluster needs more bookies than copies."""
    appends = cluster.bookies / known.bookies_append
    lost = round(cluster.ledgers * cluster.copies / cluster.bookies)
    first = known.urgency * lost
    copied = lost * cluster.ledger_bytes / (known.copied_bytes * (cluster.bookies - 1))
    return Projection(
        appends=appends,
        client_cores=appends * known.client_append,
        disk_bytes=appends * KIB * known.written_per_byte / cluster.bookies,
        index_bytes=known.index_bytes * cluster.ledgers,
        survey_seconds=(known.indexed + known.stored) * cluster.ledgers,
        round_seconds=known.quiet_round * cluster.ledgers,
        lost_ledgers=lost,
        first_request_seconds=first,
        healed_seconds=known.delay + first + copied,
    )


ROWS: Final[tuple[tuple[str, Callable[[Projection], str]], ...]] = (
    ("appends of 1 KiB a second", lambda p: f"{p.appends:,.0f}"),
    ("cores of clients for them", lambda p: f"{p.client_cores:,.1f}"),
    ("written by each bookie meanwhile", lambda p: f"{p.disk_bytes / MIB:,.0f} MiB/s"),
    ("memory of the auditor's index", lambda p: f"{p.index_bytes / MIB:,.1f} MiB"),
    ("its first survey", lambda p: f"{p.survey_seconds:,.0f} s"),
    ("a round without news", lambda p: f"{p.round_seconds * 1e3:,.1f} ms"),
    ("ledgers of a lost bookie", lambda p: f"{p.lost_ledgers:,}"),
    ("end of the delay to the first request", lambda p: f"{p.first_request_seconds:,.2f} s"),
    ("loss to full copies, with the delay", lambda p: f"{p.healed_seconds / 60:,.1f} min"),
)


def table(clusters: Sequence[Cluster], known: Constants) -> str:
    """Return the projections side by side, as Markdown."""
    found = [project(each, known) for each in clusters]
    heads = [f"{each.bookies:,} bookies, {each.ledgers:,} ledgers" for each in clusters]
    lines = ["| | " + " | ".join(heads) + " |", "|---" * (len(found) + 1) + "|"]
    lines += [f"| {name} | " + " | ".join(map(shown, found)) + " |" for name, shown in ROWS]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bookies", type=int, default=1_000)
    parser.add_argument("--ledgers", type=int, default=1_000_000)
    parser.add_argument("--ledger-mib", type=int, default=64, help="size of a ledger")
    given = parser.parse_args()
    if given.bookies <= COPIES or given.ledgers < 1:
        parser.error("give more than 3 bookies, and at least one ledger")
    largest = Cluster(given.bookies, given.ledgers, ledger_bytes=given.ledger_mib * MIB)
    steps = [
        Cluster(bookies, ledgers, ledger_bytes=largest.ledger_bytes)
        for share in (100, 10)
        if (bookies := largest.bookies // share) > COPIES
        if (ledgers := largest.ledgers // share) > 0
    ]
    print(table([*steps, largest], measured()))


if __name__ == "__main__":
    main()
