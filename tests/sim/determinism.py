"""Proof that a seed says all there is to say about a run.

    python -m tests.sim.determinism --seeds 200

runs the seeds in fresh interpreters under several hash seeds and compares what every run came to:
verdict, steps, and the hash over all of them. Exit code 1 at the first difference.

    python -m tests.sim.determinism --seeds 50 --compiled build/compiled

compares this program with its compiled modules in a directory instead (`make compiled`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Final

import click

from tests.compiled import demand_compiled
from tests.sim.chunks import line_of
from tests.sim.run import WORKLOADS, run_seed

ROOT: Final = Path(__file__).resolve().parents[2]
HASH_SEEDS: Final = ("0", "1", "random")


def lines(seeds: int) -> Iterator[str]:
    """What every run of the seeds came to, a line each."""
    for seed in range(seeds):
        for workload in WORKLOADS:
            yield line_of(run_seed(seed, workload))


def traces(seeds: int, hash_seed: str, root: Path = ROOT) -> list[str]:
    """The same, in a fresh interpreter, of the program in a directory."""
    found = subprocess.run(
        [sys.executable, "-m", "tests.sim.determinism", "--print", "--seeds", str(seeds)],
        cwd=root,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    return found.stdout.splitlines()


@click.command(help=__doc__)
@click.option("--seeds", type=int, default=200, show_default=True)
@click.option("--print", "as_worker", is_flag=True, help="Run the seeds here and print the lines.")
@click.option(
    "--compiled",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A copy with compiled modules, to compare with instead of other hash seeds.",
)
def main(seeds: int, as_worker: bool, compiled: Path | None) -> None:
    if as_worker:
        for line in lines(seeds):
            click.echo(line)
        return
    if compiled is None:
        what = f"{len(HASH_SEEDS)} hash seeds"
        first, *others = [traces(seeds, hash_seed) for hash_seed in HASH_SEEDS]
    else:
        demand_compiled(compiled.resolve())
        what = f"plain and in {compiled}"
        first, *others = [traces(seeds, "0", root) for root in (ROOT, compiled.resolve())]
    for other in others:
        for one, another in zip_longest(first, other):
            if one != another:
                click.echo(f"differs: {one}\n         {another}")
                sys.exit(1)
    click.echo(f"{len(first)} runs, {what}: identical traces")


if __name__ == "__main__":
    main()
