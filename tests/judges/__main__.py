"""Bring histories before the judges: `make judges MINUTES=10`.

First the judges themselves: what was planted has to be noticed, and an honest history to pass. Then
soaks of real processes on each metadata store, then the histories of simulated runs. Everything
that was judged stays in the directory, with `verdicts.ndjson`.

Ends with 1 when a judge missed what was planted, when a run failed by itself, or when a judge found
a history illegal. `Unknown` (a judge ran out of time) and "not fed" are reported, and do not fail.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Final

from quire.cli.settings import run
from tests.judges.drills import DRILLS, run_drill
from tests.judges.history import History, load, save
from tests.judges.judging import ILLEGAL, OK, Court, Verdict, is_condemned, summary
from tests.judges.planted import HONEST, PLANTED
from tests.judges.power import LAZY
from tests.judges.simulated import WORKLOADS, Simulated, simulate
from tests.soak import soak

SOAK_KILLS: Final = 3
SOAK_SEED: Final = 1
FAILING: Final = "power-loss-of-all"
FAILING_SIZE: Final = 500
CHUNK: Final = 50
"""So many simulated histories are judged at a time."""


class Session:
    """One run of this program: the court, where everything is kept, and what was said."""

    def __init__(self, court: Court, directory: Path) -> None:
        self.court = court
        self.directory = directory
        self.is_good = True

    def fail(self, text: str) -> None:
        """Note a failure that no judge had to find."""
        print(f"✗ {text}", flush=True)
        self.is_good = False

    def hear(self, title: str, verdicts: Sequence[Verdict]) -> None:
        """Report and keep verdicts."""
        print(title)
        for line in summary(verdicts):
            print(f"  {line}", flush=True)
        with (self.directory / "verdicts.ndjson").open("a", encoding="utf-8") as file:
            file.writelines(json.dumps({"of": title, **asdict(each)}) + "\n" for each in verdicts)
        self.is_good = self.is_good and not is_condemned(verdicts)

    # -- what is judged --------------------------------------------------------------------------

    def try_judges(self) -> None:
        """Show the judges what was planted."""
        histories: dict[str, History] = {"an honest history": HONEST}
        histories.update((name, planted.history) for name, planted in PLANTED.items())
        for verdict in self.court.judge(histories):
            expected = _expected(verdict)
            if expected not in (None, verdict.verdict):
                self.fail(f"{verdict}, where {expected} is right")
        judges = "porcupine, anomalies" + (", s2" if self.court.s2 else "")
        print(f"the judges ({judges}) were shown {len(PLANTED)} planted violations")

    def soak(self, minutes: float, zookeeper: int | None) -> None:
        """Judge a soak on SQLite, or on so many ZooKeeper servers."""
        name = "soak on SQLite" if zookeeper is None else f"soak on {zookeeper} ZooKeepers"
        directory = self.directory / name.replace(" ", "-").lower()
        with tempfile.TemporaryDirectory(prefix="quire-events-") as events:
            places = (Path(events), directory)
            if not run(lambda: soak(minutes * 60, SOAK_KILLS, SOAK_SEED, zookeeper, *places)):
                self.fail(f"{name}: its own checks failed")
        self._judge_directory(name, directory)

    def drill(self, names: Iterable[str]) -> None:
        """Run and judge drills on real processes."""
        for name in names:
            directory = self.directory / f"drill-{name}"
            report = run(partial(run_drill, name, directory))
            print(report)
            if report.wrong:
                self.fail(f"drill {name}: its own checks failed")
            self._judge_directory(f"drill {name}", directory)

    def try_drill(self) -> None:
        """Show that a drill can fail: bookies acknowledge before they sync.

        Records are lost, and readers are told so. That is an error, not a false answer, so a judge
        of linearizability may pass the history. The drill and our own checker have to see it.
        """
        directory = self.directory / "drill-that-fails"
        report = run(partial(run_drill, FAILING, directory, size=FAILING_SIZE, rounds=1, mode=LAZY))
        verdicts = self.court.judge({"late syncs": load(sorted(directory.glob("*.ndjson")))})
        print("\n".join([str(report), *(f"  {each}"[:200] for each in verdicts)]))
        is_seen = any(each.judge == "anomalies" and each.verdict == ILLEGAL for each in verdicts)
        if not (report.wrong and is_seen):
            self.fail("bookies that sync late lost records, and it was not seen")

    def _judge_directory(self, name: str, directory: Path) -> None:
        history = load(sorted(directory.glob("*.ndjson")))
        print(f"{name}: {len(history)} operations, in {directory}")
        self.hear(name, self.court.judge({name: history}))

    def simulate(self, count: int, jobs: int) -> None:
        """Judge so many simulated histories."""
        runs = [(number // len(WORKLOADS), WORKLOADS[number % 2]) for number in range(count)]
        verdicts: list[Verdict] = []
        operations = 0
        with multiprocessing.get_context("spawn").Pool(jobs) as pool:
            for start in range(0, count, CHUNK):
                done = pool.starmap(simulate, runs[start : start + CHUNK])
                operations += sum(len(each.history) for each in done)
                verdicts += self.court.judge(self._keep(done))
                counts = Counter((each.judge, each.verdict) for each in verdicts)
                print(f"{start + len(done)} runs, {dict(counts)}", file=sys.stderr, flush=True)
        title = f"{count} simulated runs, {operations} operations"
        self.hear(title, verdicts)

    def _keep(self, runs: Sequence[Simulated]) -> dict[str, History]:
        for simulated in runs:
            if simulated.result.failed:
                self.fail(f"{simulated.name}: {simulated.result.error}")
            if simulated.history:
                save(self.directory / "simulated" / f"{simulated.name}.ndjson", simulated.history)
        return {simulated.name: simulated.history for simulated in runs if simulated.history}


def _expected(verdict: Verdict) -> str | None:
    """Return the right verdict on a planted history; None where any is, or there is none."""
    planted = PLANTED.get(verdict.history)
    if planted is None:
        right = OK
    elif verdict.judge == "anomalies" or planted.breaks_linearizability:
        right = ILLEGAL
    else:
        right = OK
    return None if verdict.verdict == "not fed" and "could not be had" in verdict.detail else right


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("--porcupine", type=Path, required=True, help="porcupine/main.go, built")
    arguments.add_argument("--s2", type=Path, help="S2's s2-porcupine, built")
    arguments.add_argument("--directory", type=Path, default=Path("build/judges/histories"))
    arguments.add_argument("--minutes", type=float, default=0.0, help="of each soak")
    arguments.add_argument("--zookeeper", type=int, default=3, help="0 leaves this soak out")
    arguments.add_argument("--simulated", type=int, default=1000, help="how many simulated runs")
    arguments.add_argument("--jobs", type=int, default=2)
    arguments.add_argument("--drills", nargs="*", default=list(DRILLS), help="all by default")
    options = arguments.parse_args()
    shutil.rmtree(options.directory, ignore_errors=True)
    options.directory.mkdir(parents=True)
    has_s2 = options.s2 is not None and options.s2.is_file()
    court = Court(options.porcupine, options.s2 if has_s2 else None)
    session = Session(court, options.directory)
    session.try_judges()
    if options.minutes:
        session.soak(options.minutes, None)
        if options.zookeeper:
            session.soak(options.minutes, options.zookeeper)
    if options.drills:
        session.drill(options.drills)
        session.try_drill()
    if options.simulated:
        session.simulate(options.simulated, options.jobs)
    print("every judge agrees" if session.is_good else "FAILED")
    sys.exit(0 if session.is_good else 1)


if __name__ == "__main__":
    main()
