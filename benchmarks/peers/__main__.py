"""quire beside its peers, in one run.

    python -m benchmarks.peers [--rounds 3] [--seconds 3] [--peers quire,Kafka,Redis]
        [--only 'ledger: 1 KiB'] [--json FILE] [--plot FILE] [--against FILE]

All servers run all the time, and take turns: in a round each workload is run by each peer that has
its kind, in another order each round, once all servers have settled. Java's clients and servers are
warmed up first. With `--against` the exit code is 1 if a ratio fell below 0.8 of its value in an
earlier record.

PostgreSQL, Redis, etcd or NATS is left out, with a line that says why, when it cannot be installed
or started.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import quire
from benchmarks.peers import report
from benchmarks.peers.bookkeeper import BookKeeper
from benchmarks.peers.distributedlog import DistributedLog
from benchmarks.peers.kafka import Kafka
from benchmarks.peers.machine import memory, settle, spent
from benchmarks.peers.others import OTHERS, left_out, make_others
from benchmarks.peers.own import Gateway, Ledgers, Logs
from benchmarks.peers.peer import Peer, PeerError, Took, UnavailableError
from benchmarks.peers.workloads import READ_FROM, WORKLOADS, Workload
from quire.cli.settings import run
from quire.errors import QuireError
from tests.interop.jars import JarsMissingError
from tests.interop.servers import JavaError

WARM_UP_SECONDS: Final = 10.0
KNOWN: Final = ("quire", "BookKeeper", "Kafka", "DistributedLog", *OTHERS)


def warm_up(peer: Peer) -> Workload:
    """Return the workload that a peer's readings read back."""
    return Workload(peer.kinds[0], *READ_FROM)


def peers_of(words: Sequence[str], place: Path) -> list[Peer]:
    """Return the peers of some families of names; prints a line for each that is left out."""
    made: list[Peer] = []
    if "quire" in words:
        made += [Ledgers(place / "ledgers"), Logs(place / "logs"), Gateway(place / "gateway")]
    if "BookKeeper" in words:
        made += [BookKeeper(place / f"bk-{each}", each) for each in ("default", "tuned")]
    if "Kafka" in words:
        made += [Kafka(place / f"kafka-{each}", each) for each in ("default", "synced")]
    if "DistributedLog" in words:
        made.append(DistributedLog(place / "dlog"))
    others, lines = make_others(words, place)
    for line in lines:
        print(line, file=sys.stderr)
    return [*made, *others]


async def measure(peer: Peer, workload: Workload, number: int, seconds: float) -> report.Run:
    """Run a workload, and read the counters before and after."""
    pids = peer.servers()
    before, begun = spent(pids), time.perf_counter()
    took: Took = await peer.run(workload, seconds)
    lasted = time.perf_counter() - begun
    used = spent(pids) - before
    return report.Run(
        round=number,
        peer=peer.name,
        kind=workload.kind,
        workload=workload.name,
        per_second=took.entries / took.seconds,
        p50_ms=took.p50_ms,
        p99_ms=took.p99_ms,
        client_us=1e6 * took.cpu_seconds / took.entries,
        servers_us=1e6 * used.cpu_seconds / took.entries,
        flushes_per_second=used.flushes / lasted,
        written_per_byte=used.written / took.entries / workload.size,
        memory_mb=memory(pids) / 1e6,
    )


async def _takes_part(peer: Peer, step: Awaitable[object], progress: Progress) -> bool:
    """Start or warm up a peer. Returns whether that went well; else it ends with a line."""
    try:
        await step
    except (UnavailableError, PeerError) as error:
        progress.console.print(left_out(peer.name, error), markup=False, soft_wrap=True)
        await peer.stop()
        return False
    return True


async def compare(
    peers: Sequence[Peer],
    workloads: Sequence[Workload],
    given: argparse.Namespace,
    runs: list[report.Run],
) -> None:
    """Start all, warm up, and run the rounds, each run into `runs`. Ends everything, however it
    goes.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True
    ) as progress:
        steps = sum(w.kind in p.kinds for w in workloads for p in peers) * given.rounds
        task = progress.add_task("starting", total=steps + 2 * len(peers))
        async with AsyncExitStack() as stack:
            started, ready = [], []
            for peer in peers:
                progress.update(task, description=f"starting {peer.name}", advance=1)
                stack.push_async_callback(peer.stop)
                if await _takes_part(peer, peer.start(), progress):
                    started.append(peer)
            gc.freeze()
            gc.set_threshold(10_000, 20, 20)
            limit = min(WARM_UP_SECONDS, 3 * given.seconds)
            for peer in started:
                progress.update(task, description=f"warming up {peer.name}", advance=1)
                if await _takes_part(peer, peer.run(warm_up(peer), limit), progress):
                    ready.append(peer)
            for number in range(given.rounds):
                for workload in workloads:
                    turns = [peer for peer in ready if workload.kind in peer.kinds]
                    random.shuffle(turns)
                    for peer in turns:
                        what = f"round {number + 1}: {peer.name}, {workload.name}"
                        progress.update(task, description=what, advance=1)
                        try:
                            await settle([pid for each in ready for pid in each.servers()])
                            runs.append(await measure(peer, workload, number, given.seconds))
                        except (JavaError, QuireError, PeerError) as error:
                            progress.console.print(f"{what}: {error}")


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
    runs: list[report.Run] = []
    try:
        earlier = report.read_record(given.against) if given.against else None
        with tempfile.TemporaryDirectory(prefix="quire-peers-") as directory:
            kinds = {workload.kind for workload in workloads}
            words = [each for each in words if each not in OTHERS or "log" in kinds]
            peers = [each for each in peers_of(words, Path(directory)) if kinds & {*each.kinds}]
            run(partial(compare, peers, workloads, given, runs))
        lines = tell(report.Results(runs), workloads, given, earlier)
    except (JarsMissingError, JavaError, QuireError, OSError, ValueError, TypeError) as error:
        keep_part(report.Results(runs), workloads, given.json)
        raise SystemExit(f"error: {error}") from None
    except KeyboardInterrupt:
        keep_part(report.Results(runs), workloads, given.json)
        raise SystemExit(130) from None
    print("\n".join(lines))
    sys.exit(bool(lines))


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
