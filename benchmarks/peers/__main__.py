"""quire beside its peers, in one run.

    python -m benchmarks.peers [--rounds 3] [--seconds 3] [--peers quire,Kafka,Redis]
        [--only 'ledger: 1 KiB'] [--json FILE] [--plot FILE] [--against FILE]

Each kind of workloads (ledgers, logs, Kafka's client) has servers of its own, which run for all its
rounds: the disk holds what one kind writes. They take turns: in a round each workload is run by
each peer, in another order each round, once all servers have settled. A round begins with the
machine's raw limits. Java's clients and servers are warmed up first. With `--against` the exit code
is 1 if a ratio fell below 0.8 of its value in an earlier record.

PostgreSQL, Redis, etcd or NATS is left out, with a line that says why, when it cannot be installed
or started.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import quire
from benchmarks.peers import report
from benchmarks.peers.bookkeeper import BookKeeper
from benchmarks.peers.distributedlog import DistributedLog
from benchmarks.peers.kafka import Kafka
from benchmarks.peers.machine import check_disk
from benchmarks.peers.on_bookies import Bookies
from benchmarks.peers.others import OTHERS, make_others
from benchmarks.peers.own import Gateway, Ledgers, Logs
from benchmarks.peers.peer import Peer
from benchmarks.peers.rounds import Rounds
from benchmarks.peers.workloads import KINDS, WORKLOADS, Kind, Workload
from quire.bench.raw import measure_limits
from quire.cli.settings import run
from quire.errors import QuireError
from tests.interop.jars import JarsMissingError
from tests.interop.servers import JavaError

RAW_SECONDS: Final = 0.5
"""Of each raw limit."""
KNOWN: Final = ("quire", "BookKeeper", "Kafka", "DistributedLog", *OTHERS)


def peers_of(words: Sequence[str], place: Path) -> list[Peer]:
    """Return the peers of some families of names; prints a line for each that is left out."""
    made: list[Peer] = []
    if "quire" in words:
        made += [Ledgers(place / "ledgers"), Logs(place / "logs"), Gateway(place / "gateway")]
    if "BookKeeper" in words:
        made.append(BookKeeper(Bookies(place / "bk-default", "default")))
    if {"BookKeeper", "DistributedLog"} & {*words}:
        made += on_tuned_bookies(words, Bookies(place / "bk-tuned", "tuned"))
    if "Kafka" in words:
        made += [Kafka(place / f"kafka-{each}", each) for each in ("default", "synced")]
    others, lines = make_others(words, place)
    for line in lines:
        print(line, file=sys.stderr)
    return [*made, *others]


def on_tuned_bookies(words: Sequence[str], bookies: Bookies) -> list[Peer]:
    """Return the peers that share the tuned bookies, with a client each."""
    made: list[Peer] = []
    if "BookKeeper" in words:
        made += [BookKeeper(bookies), BookKeeper(bookies, "v2")]
    if "DistributedLog" in words:
        made.append(DistributedLog(bookies))
    return made


def appending(peers: Sequence[Peer], workloads: Sequence[Workload]) -> int:
    """Return how many times in a round a peer appends."""
    return sum(each.kind in peer.kinds for each in workloads if each.in_flight for peer in peers)


def about() -> dict[str, object]:
    """Return facts about this machine and these versions."""
    return {
        "quire": quire.__version__,
        "python": platform.python_version(),
        "machine": f"{os.cpu_count()} processors, {platform.machine()}, {platform.system()}",
        "load": os.getloadavg()[0],
    }


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of a workload")
    parser.add_argument("--peers", default=",".join(KNOWN), help="names, with commas")
    parser.add_argument("--only", default="", help="workloads with names that begin so")
    parser.add_argument("--json", type=Path, help="write all runs to a file")
    parser.add_argument("--plot", type=Path, help="write a plot of the ratios, as SVG")
    parser.add_argument("--against", type=Path, help="an earlier --json; names what fell")
    given = parser.parse_args()
    words = given.peers.split(",")
    unknown = set(words) - {*KNOWN}
    workloads = [each for each in WORKLOADS if each.name.startswith(given.only)]
    if unknown or not workloads:
        parser.error(
            f"unknown peers: {', '.join(sorted(unknown))}; known are "
            f"{', '.join(KNOWN[:-1])} and {KNOWN[-1]}"
            if unknown
            else f"no workload begins with {given.only!r}: "
            + "; ".join(each.name for each in WORKLOADS)
        )
    for place in (given.json, given.plot):
        if place and not place.absolute().parent.is_dir():
            parser.error(f"{place}: there is no directory {place.absolute().parent}")
    found = report.Results([])
    try:
        earlier = report.read_record(given.against) if given.against else None
        for kind in KINDS:
            part = [each for each in workloads if each.kind == kind]
            if part:
                measure_kind(kind, part, words, given, found)
        lines = tell(found, workloads, given, earlier)
    except (JarsMissingError, JavaError, QuireError, OSError, ValueError, TypeError) as error:
        keep_part(found, workloads, given.json)
        raise SystemExit(f"error: {error}") from None
    except KeyboardInterrupt:
        keep_part(found, workloads, given.json)
        raise SystemExit(130) from None
    print("\n".join(lines))
    sys.exit(bool(lines))


def measure_kind(
    kind: Kind,
    workloads: Sequence[Workload],
    words: Sequence[str],
    given: argparse.Namespace,
    results: report.Results,
) -> None:
    """Run all rounds of the workloads of one kind, and add the runs to the results."""
    with tempfile.TemporaryDirectory(prefix="quire-peers-") as directory:
        place = Path(directory)
        wanted = [each for each in words if each not in OTHERS or kind == "log"]
        peers = [each for each in peers_of(wanted, place) if kind in each.kinds]
        check_disk(place, given.rounds * appending(peers, workloads) * given.seconds)
        limits = partial(measure_limits, place, RAW_SECONDS)
        rounds = Rounds(peers, workloads, given.seconds, limits, results)
        run(partial(rounds.run, given.rounds))


def tell(
    results: report.Results,
    workloads: Sequence[Workload],
    given: argparse.Namespace,
    earlier: report.Results | None,
) -> list[str]:
    """Print and write all results; return a line for each ratio that fell."""
    print(report.tables(results, workloads))
    if given.json:
        given.json.write_text(report.record(results, about()))
    if given.plot:
        given.plot.write_text(report.plot(results, workloads))
    if earlier is None:
        return []
    found = report.compare_with(results, earlier)
    print(found)
    return found.fallen


def keep_part(results: report.Results, workloads: Sequence[Workload], record: Path | None) -> None:
    """Print what was measured before an early end, and write it beside the place of the record,
    which stays as it is.
    """
    if not results.runs:
        return
    print(report.tables(results, workloads))
    if record:
        part = record.with_suffix(f".part{record.suffix}")
        try:
            part.write_text(report.record(results, about()))
            said = f"these runs are in {part}"
        except OSError as error:
            said = f"these runs are only here: {error}"
        print(f"ended early: {said}", file=sys.stderr)


if __name__ == "__main__":
    main()
