"""Clients of five kinds on one log while its gateways fail: `make gateway-soak MINUTES=n SEED=n`.

Three gateways serve a log of a cluster of three bookies. Clients over HTTP, gRPC in Go and Python,
librdkafka and Kafka's Java client write it at the same time, each with a producer that repeats
what has no answer. Gateways are killed, paused and drained in turn; after each strike every writer
has to go on. At the end each kind reads the whole log, and `history.py` says what must hold.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from pathlib import Path
from typing import Final

from quire.cli.exits import INTERRUPTED
from quire.cli.settings import run
from quire.cluster import LocalCluster
from tests.gateway.soak.clients import (
    KINDS,
    Programs,
    Writers,
    addressed,
    build,
    read_by_program,
    read_by_quire,
)
from tests.gateway.soak.history import Read, check
from tests.gateway.soak.storm import STRIKES, Gateways, storm, summary

BOOKIES: Final = 3
GATEWAYS: Final = 3


async def soak(seconds: float, strikes: int, seed: int, directory: Path) -> list[str]:
    """Run a soak, and print its figures.

    Args:
        seconds: how long gateways are struck, at least.
        strikes: how many strikes there are, at least.
        seed: of the choices of the driver. Processes keep their own time.
        directory: for the cluster and for what the processes say.

    Returns:
        What is wrong; empty when the log kept every promise.

    Raises:
        RuntimeError: a process failed, or a writer was told nothing for too long.
    """
    readings: dict[str, list[Read]] = {}
    building = asyncio.ensure_future(asyncio.to_thread(build, directory))
    async with LocalCluster(directory / "cluster", BOOKIES) as cluster:
        gateways = Gateways(cluster.store_uri, directory, GATEWAYS)
        try:
            await gateways.start()
            programs = Programs(await building, addressed(gateways.addresses))
            writers = Writers(programs, directory)
            try:
                await writers.start()
                print(f"{len(KINDS)} writers, {len(gateways)} gateways", flush=True)
                made = await storm(gateways, writers, seconds, strikes, random.Random(seed))
                await writers.finish()
            finally:
                await writers.end()
            end = writers.count()
            print(f"writers ended; {summary(made)}; {end} records to read", flush=True)
            for name in KINDS[:-1]:
                readings[name] = await read_by_program(programs, name, end)
            for number in range(GATEWAYS):
                await gateways.drain(number, again=False)
        finally:
            gateways.end()
        readings[KINDS[-1]] = await read_by_quire(cluster.store_uri)
    wrong = check(writers.written, readings, end)
    counts = ", ".join(f"{name} {len(each.acked)}" for name, each in writers.written.items())
    for line in wrong:
        print(f"✗ {line}")
    print(f"records acknowledged: {counts}")
    print(
        f"{'FAILED' if wrong else 'PASSED'}: seed {seed}, {summary(made)}; {end} records "
        f"acknowledged, {len(readings['python'])} in the log, "
        f"read by {len(readings)} kinds of clients, {len(wrong)} violations",
        flush=True,
    )
    return wrong


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("--minutes", type=float, default=0.0)
    arguments.add_argument(
        "--strikes", type=int, default=len(STRIKES), help="strike gateways at least so often"
    )
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="quire-gateway-soak-") as directory:
        try:
            seconds = options.minutes * 60
            wrong = run(lambda: soak(seconds, options.strikes, options.seed, Path(directory)))
        except RuntimeError as error:
            wrong = [str(error)]
            print(f"FAILED: seed {options.seed}, {error}", flush=True)
        except KeyboardInterrupt:
            print("interrupted: every process has ended", flush=True)
            sys.exit(INTERRUPTED)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
