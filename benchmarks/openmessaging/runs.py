"""One run of OpenMessaging Benchmark: a JVM of its own, and the results that it writes.

The benchmark tells its figures every ten seconds. The first of them are of a JVM that has just
begun, so a run is the medians of the others.

The benchmark leaves a thread behind, so its process does not end by itself. It is ended as soon as
the results are whole, and in any case after `BESIDE_SECONDS` more than the workload lasts: a driver
that cannot create its topic tries again forever.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.openmessaging.workloads import Workload
from quire.cluster.zookeeper.java import find_java
from quire.errors import ConfigurationError

MAIN: Final = "io.openmessaging.benchmark.Benchmark"
FRAMEWORK: Final = "benchmark-framework"
BESIDE_SECONDS: Final = 120.0
"""For the JVM, the topic, producer and consumer; consumers have a minute of the benchmark's."""

LOOK_SECONDS: Final = 0.5
LAST_LINES: Final = 15


class RunFailedError(Exception):
    """The benchmark has no results, with the last lines that it said."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one workload before one system."""

    round: int
    system: str
    workload: str
    per_second: float
    """Messages published, the median of the periods."""
    consumed: float
    """Messages consumed a second, likewise."""
    publish_p50_ms: float
    publish_p99_ms: float
    through_p50_ms: float
    """From the producer to the consumer, in whole milliseconds of the benchmark."""
    through_p99_ms: float
    errors: float
    """Messages a second that were refused, the mean of the periods."""
    backlog: int
    """Messages that were not consumed at the end."""
    load: float
    """Of the machine when the run began: processes that ran or waited, over one minute."""


def find_jars(directory: Path) -> Path:
    """Return the directory of the benchmark's jars: this one, or `lib` in it.

    Raises:
        ConfigurationError: neither has them.
    """
    for place in (directory, directory / "lib"):
        if any(place.glob(f"*{FRAMEWORK}-*.jar")):
            return place
    raise ConfigurationError(
        f"{directory} has no jar {FRAMEWORK}-*.jar, nor has {directory / 'lib'}: give the directory"
        " of OpenMessaging Benchmark's package, which its README tells how to build"
    )


async def run_benchmark(
    jars: Path, place: Path, driver: str, workload: Workload, minutes: int
) -> Mapping[str, Any]:
    """Run the benchmark once, and return its results.

    Args:
        jars: the directory that `find_jars` found.
        place: an empty directory for its files.
        driver: the text of the driver's file.
        workload: what it publishes and consumes.
        minutes: how long.

    Raises:
        RunFailedError: it ended without results, or has none in time.

    Cancellation: ends the process.
    """
    names = {"driver.yaml": driver, "workload.yaml": workload.file(minutes)}
    for name, text in names.items():
        (place / name).write_text(text)
    results, said = place / "results.json", place / "said.log"
    command = (str(find_java()), "-Xmx1g", "-cp", f"{jars}/*", MAIN)
    files = ("--drivers", "driver.yaml", "--output", results.name, "workload.yaml")
    with said.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *command, *files, cwd=place, stdout=log, stderr=log
        )
    ended = asyncio.create_task(process.wait())
    try:
        until = asyncio.get_running_loop().time() + 60 * minutes + BESIDE_SECONDS
        while not ended.done() and asyncio.get_running_loop().time() < until:
            if _whole(results) is not None:
                break
            await asyncio.wait([ended], timeout=LOOK_SECONDS)
    finally:
        if process.returncode is None:
            process.kill()
        await ended
    found = _whole(results)
    if found is None:
        lines = said.read_text(errors="replace").splitlines()[-LAST_LINES:]
        raise RunFailedError("the benchmark has no results; it said last:\n" + "\n".join(lines))
    return found


def _whole(results: Path) -> Mapping[str, Any] | None:
    """Return the results once all of them are written."""
    try:
        found: Mapping[str, Any] = json.loads(results.read_text())
    except (OSError, ValueError):
        return None
    return found


def run_of(
    results: Mapping[str, Any], number: int, system: str, workload: Workload, load: float
) -> Run:
    """Return the figures of a run from the benchmark's results; its first period is left out.

    Raises:
        RunFailedError: it has no second period.
    """
    if len(results["publishRate"]) < 2:
        raise RunFailedError("the benchmark has fewer than two periods of ten seconds")

    def median(name: str) -> float:
        return float(statistics.median(results[name][1:]))

    return Run(
        round=number,
        system=system,
        workload=workload.name,
        per_second=median("publishRate"),
        consumed=median("consumeRate"),
        publish_p50_ms=median("publishLatency50pct"),
        publish_p99_ms=median("publishLatency99pct"),
        through_p50_ms=median("endToEndLatency50pct"),
        through_p99_ms=median("endToEndLatency99pct"),
        errors=float(statistics.mean(results["publishErrorRate"])),
        backlog=int(results["backlog"][-1]),
        load=load,
    )


def load_now() -> float:
    """Return the load of the machine over the last minute."""
    return os.getloadavg()[0]
