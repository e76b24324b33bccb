"""OpenMessaging Benchmark's Kafka driver before Kafka and before a gateway of quire, in one run.

    python -m benchmarks.openmessaging --benchmark DIRECTORY [--rounds 2] [--minutes 1]
        [--sizes 1024,100] [--rates 0,1000] [--systems quire,default,synced] [--json FILE]

DIRECTORY has the benchmark's jars, or its package; the README of the benchmark tells how to build
it. All servers run all the time, and take turns: in a round each workload runs before each system,
in another order each round. A run lasts whole minutes, since the benchmark counts in minutes. All
processes end with the command, also after Ctrl-C.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.openmessaging import report
from benchmarks.openmessaging.runs import (
    Run,
    RunFailedError,
    find_jars,
    load_now,
    run_benchmark,
    run_of,
)
from benchmarks.openmessaging.systems import OWN, GatewaySystem, KafkaSystem, System
from benchmarks.openmessaging.workloads import Workload, driver_file
from benchmarks.peers.__main__ import about
from benchmarks.peers.kafka import SETTINGS
from quire.cli.settings import run
from quire.errors import QuireError
from tests.interop.jars import JarsMissingError

SYSTEMS: Final = (OWN, *SETTINGS)


def systems_of(names: Sequence[str], place: Path) -> list[System]:
    """Return the systems of some names of `SYSTEMS`."""
    return [
        GatewaySystem(place / each) if each == OWN else KafkaSystem(place / each, each)
        for each in names
    ]


async def compare(
    systems: Sequence[System],
    workloads: Sequence[Workload],
    given: argparse.Namespace,
    jars: Path,
    place: Path,
) -> list[Run]:
    """Start all servers, and run the rounds. Ends everything, however it goes."""
    runs: list[Run] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True
    ) as progress:
        turns = len(systems) * len(workloads) * given.rounds
        task = progress.add_task("starting", total=turns + len(systems))
        async with AsyncExitStack() as stack:
            drivers: dict[str, str] = {}
            for each in systems:
                progress.update(task, description=f"starting {each.name}", advance=1)
                stack.push_async_callback(each.stop)
                drivers[each.name] = driver_file(each.name, await each.start(), dict(each.topic))
            for number, workload in product(range(given.rounds), workloads):
                for each in random.sample(systems, len(systems)):
                    what = f"round {number + 1}: {each.name}, {workload.name}"
                    progress.update(task, description=what, advance=1)
                    files = Path(tempfile.mkdtemp(dir=place))
                    load = load_now()
                    try:
                        found = await run_benchmark(
                            jars, files, drivers[each.name], workload, given.minutes
                        )
                        runs.append(run_of(found, number, each.name, workload, load))
                    except RunFailedError as error:
                        progress.console.print(f"{what}: {error}", markup=False)
    return runs


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of the command. Ends the process for wrong ones."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--benchmark", type=Path, required=True, help="directory of its jars")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--minutes", type=int, default=1, help="of a run")
    parser.add_argument("--sizes", default="1024,100", help="bytes of a message, with commas")
    parser.add_argument(
        "--rates", default="0,1000", help="messages a second, with commas; 0: as many as it takes"
    )
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="names, with commas")
    parser.add_argument("--json", type=Path, help="write all runs to a file")
    given = parser.parse_args(words)
    if unknown := sorted(set(given.systems.split(",")) - set(SYSTEMS)):
        parser.error(f"unknown systems: {', '.join(unknown)}; known are {', '.join(SYSTEMS)}")
    if given.rounds < 1 or given.minutes < 1:
        parser.error(
            f"--rounds {given.rounds} --minutes {given.minutes}: both are 1 or more; the benchmark"
            " counts whole minutes"
        )
    try:
        sizes = [int(each) for each in given.sizes.split(",")]
        rates = [int(each) for each in given.rates.split(",")]
        given.workloads = [Workload(size, rate) for size, rate in product(sizes, rates)]
    except ValueError as error:
        parser.error(f"--sizes {given.sizes} --rates {given.rates}: {error}")
    return given


def main() -> None:
    """Run the command."""
    given = parse()
    try:
        jars = find_jars(given.benchmark.absolute())
        with tempfile.TemporaryDirectory(prefix="quire-openmessaging-") as directory:
            place = Path(directory)
            systems = systems_of(given.systems.split(","), place)
            runs = run(partial(compare, systems, given.workloads, given, jars, place))
        print(report.tables(runs))
        if given.json:
            given.json.write_text(report.record(runs, about()))
    except (JarsMissingError, QuireError, OSError) as error:
        raise SystemExit(f"error: {error}") from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    sys.exit(len(runs) < len(systems) * len(given.workloads) * given.rounds)


if __name__ == "__main__":
    main()
