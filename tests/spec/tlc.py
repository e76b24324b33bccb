"""Compare the twins with TLC: `make tlc`. Needs Java; it is not part of `make test`.

TLC must generate the same number of states, find the same number of distinct ones, and reach the
same depth. Without a safeguard it must find the same promise broken after the same number of steps.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.spec import bounds as ledger_bounds
from tests.spec import log_bounds, page_bounds
from tests.spec.checker import Outcome
from tests.spec.ledger import SAFEGUARDS, Bounds
from tests.spec.log import PROMISES as LOG_PROMISES
from tests.spec.log import SAFEGUARDS as LOG_SAFEGUARDS
from tests.spec.log import LogBounds
from tests.spec.pages import PROMISES as PAGE_PROMISES
from tests.spec.pages import SAFEGUARDS as PAGE_SAFEGUARDS
from tests.spec.pages import PageBounds
from tests.support.java import java_home

SPEC: Final = Path(__file__).parents[2] / "spec"
VERSION: Final = re.compile(r"^TLC2 (.*)$", re.MULTILINE)
COUNTS: Final = re.compile(r"^(\d+) states generated, (\d+) distinct states found", re.MULTILINE)
DEPTH: Final = re.compile(r"depth of the complete state graph search is (\d+)")
STATE: Final = re.compile(r"^State (\d+): ", re.MULTILINE)
BROKEN: Final = re.compile(r"Invariant (\w+) is violated")

PROMISES: Final = ("L1", "M1", "L2", "L3", "L4", "L5")


class Task(NamedTuple):
    """What TLC is to check: a module, and the text of its configuration file."""

    module: str
    text: str


def ledger_task(bounds: Bounds, removed: Iterable[str] = ()) -> Task:
    """Return what TLC is to check of `Ledger.tla`."""
    constants: dict[str, object] = {
        "B": _set_of(str(b + 1) for b in range(bounds.bookies)),
        "R": _set_of(f"x{x + 1}" for x in range(bounds.recoverers)),
        "E": bounds.ensemble,
        "Qw": bounds.write_quorum,
        "Qa": bounds.ack_quorum,
        "N": bounds.entries,
        "Changes": bounds.changes,
        "CanDelete": bounds.can_delete,
        "CanForget": bounds.can_forget,
        "CanRevive": bounds.can_revive,
        "CanResend": bounds.can_resend,
        **{name: name not in set(removed) for name in SAFEGUARDS},
    }
    # An older TLC fails on the symmetry of a single recoverer.
    symmetry = ["SYMMETRY Sym"] if bounds.recoverers > 1 else []
    return Task("Ledger", _configuration(constants, PROMISES, *symmetry))


def log_task(bounds: LogBounds, removed: Iterable[str] = ()) -> Task:
    """Return what TLC is to check of `Log.tla`."""
    constants: dict[str, object] = {
        "Leaders": bounds.leaders,
        "Erasers": bounds.erasers,
        "Ids": bounds.ids,
        "N": bounds.records,
        "Unknown": bounds.unknown,
        "CanRoll": bounds.rolls,
        "CanBreak": bounds.breaks,
        "CanLeave": bounds.leaves,
        "CanTrim": bounds.trims,
        "CanSweep": bounds.sweeps,
        "CanCollect": bounds.collects,
        "CanIngest": bounds.ingests,
        "CanForget": bounds.forgets,
        **{name: name not in set(removed) for name in LOG_SAFEGUARDS},
    }
    return Task("Log", _configuration(constants, LOG_PROMISES))


def page_task(bounds: PageBounds, removed: Iterable[str] = ()) -> Task:
    """Return what TLC is to check of `Pages.tla`."""
    constants: dict[str, object] = {
        "Editors": bounds.editors,
        "N": bounds.segments,
        "F": bounds.rows,
        "Names": bounds.names,
        **{name: name not in set(removed) for name in PAGE_SAFEGUARDS},
    }
    return Task("Pages", _configuration(constants, PAGE_PROMISES))


def _configuration(constants: dict[str, object], invariants: Iterable[str], *more: str) -> str:
    rows = [f"  {name} = {_written(value)}" for name, value in constants.items()]
    lines = ["SPECIFICATION Spec", "CONSTANTS", *rows, *more]
    return "\n".join([*lines, *(f"INVARIANT {name}" for name in invariants), ""])


def _set_of(members: Iterable[str]) -> str:
    return "{" + ", ".join(members) + "}"


def _written(value: object) -> str:
    return str(value).upper() if isinstance(value, bool) else str(value)


class NoVerdictError(Exception):
    """TLC ended, and said neither that the promises hold nor that one is broken."""


class Verdict(NamedTuple):
    """What TLC said of a row of the tables, and what the twin found."""

    row: str
    found: Outcome
    expected: Outcome
    seconds: float

    @property
    def is_same(self) -> bool:
        """The number of states before a violation depends on the order of the search."""
        if self.expected.broken is None:
            return self.found == self.expected
        return self.found[:2] == self.expected[:2]

    def __str__(self) -> str:
        broken, depth, generated, distinct = self.found
        verdict = "holds" if broken is None else f"breaks {broken}"
        twin = "as the twin" if self.is_same else f"DIFFERS from the twin: {self.expected}"
        counts = f"{generated:>11,} {distinct:>9,} {depth:>5}"
        return f"{self.row:<52} {verdict:<12} {counts} {self.seconds:>6.1f} s  {twin}"


HEADING: Final = f"{'row':<52} {'TLC':<12} {'states':>11} {'distinct':>9} {'depth':>5} {'time':>8}"


def outcome(text: str) -> Outcome:
    """Read what TLC printed. Raises `NoVerdictError`, with the end of the text."""
    counts, depth, broken = COUNTS.search(text), DEPTH.search(text), BROKEN.search(text)
    if counts is None or depth is None or ("Error:" in text and broken is None):
        raise NoVerdictError(text[-2000:])
    generated, distinct = (int(number) for number in counts.groups())
    if broken is None:
        return Outcome(None, int(depth[1]), generated, distinct)
    length = max((int(number) for number in STATE.findall(text)), default=0)
    return Outcome(broken[1], length, generated, distinct)


class Checker:
    """TLC, one worker for each task: then its counterexamples are the shortest.

    `java` is the command, and `jar` the path of tla2tools.jar.
    """

    def __init__(self, java: str, jar: Path, jobs: int) -> None:
        self._java = [java, "-XX:+UseSerialGC", "-Xmx3g", "-cp", str(jar)]
        self._slots = asyncio.Semaphore(jobs)

    async def version(self) -> str:
        """Return what TLC calls itself. Raises `NoVerdictError` when it cannot be started."""
        with tempfile.TemporaryDirectory() as scratch:
            text = await self._run("-help", cwd=Path(scratch))
        found = VERSION.search(text)
        if found is None:
            raise NoVerdictError(text[-2000:])
        return found[1]

    async def check(self, row: str, task: Task, expected: Outcome) -> Verdict:
        """Check one row. Raises `NoVerdictError`. Cancelling ends TLC."""
        async with self._slots:
            began = time.monotonic()
            with tempfile.TemporaryDirectory() as scratch:
                place = Path(scratch)
                shutil.copy(SPEC / f"{task.module}.tla", place)
                (place / f"{task.module}.cfg").write_text(task.text)
                options = ("-deadlock", "-workers", "1", "-metadir", "states", f"{task.module}.tla")
                text = await self._run(*options, cwd=place)
            try:
                found = outcome(text)
            except NoVerdictError as error:
                raise NoVerdictError(f"TLC came to no verdict on {row!r}:\n{error}") from None
            return Verdict(row, found, expected, time.monotonic() - began)

    async def _run(self, *options: str, cwd: Path) -> str:
        # TLC unpacks its own modules there, and two at a time would remove each other's.
        command = [*self._java, f"-Djava.io.tmpdir={cwd}", "tlc2.TLC", *options]
        pipe, same = asyncio.subprocess.PIPE, asyncio.subprocess.STDOUT
        process = await asyncio.create_subprocess_exec(*command, cwd=cwd, stdout=pipe, stderr=same)
        try:
            printed, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return printed.decode(errors="replace")


def _comparisons() -> Iterator[tuple[str, Task, Outcome]]:
    """Every row of both tables: its name, what TLC is to check, and what the twin found."""
    for name, (bounds, expected) in {**ledger_bounds.PASSING, **ledger_bounds.THOROUGH}.items():
        yield name, ledger_task(bounds), expected
    for safeguard, (bounds, expected) in ledger_bounds.REDUNDANT.items():
        yield f"without {safeguard}", ledger_task(bounds, [safeguard]), expected
    for each in ledger_bounds.REMOVED:
        yield f"without {each.safeguard}", ledger_task(each.bounds, [each.safeguard]), each.outcome
    for name, (log, expected) in {**log_bounds.PASSING, **log_bounds.THOROUGH}.items():
        yield f"log: {name}", log_task(log), expected
    for row in log_bounds.REMOVED:
        task = log_task(row.bounds, [row.safeguard])
        yield f"log: without {row.safeguard}", task, row.outcome
    for name, (paged, expected) in {**page_bounds.PASSING, **page_bounds.THOROUGH}.items():
        yield f"pages: {name}", page_task(paged), expected
    for lost in page_bounds.REMOVED:
        task = page_task(lost.bounds, [lost.safeguard])
        yield f"pages: without {lost.safeguard}", task, lost.outcome


def comparisons(words: Sequence[str] = ()) -> list[tuple[str, Task, Outcome]]:
    """Return every row whose name has one of some words; all without words."""
    rows = list(_comparisons())
    return [row for row in rows if not words or any(word in row[0] for word in words)]


async def compare(java: str, jar: Path, jobs: int, words: Sequence[str], *, as_json: bool) -> int:
    """Compare every row and print the table; return how many differ."""
    began = time.monotonic()
    checker = Checker(java, jar, jobs)
    version = await checker.version()
    if not as_json:
        print(f"TLC {version}\n{HEADING}", flush=True)
    verdicts = []
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(checker.check(*row)) for row in comparisons(words)]
        for task in tasks:
            verdicts.append(await task)
            if not as_json:
                print(verdicts[-1], flush=True)
    differing = sum(not each.is_same for each in verdicts)
    seconds = time.monotonic() - began
    if as_json:
        rows = [each._asdict() | {"is_same": each.is_same} for each in verdicts]
        print(json.dumps({"tlc": version, "seconds": seconds, "rows": rows}))
    else:
        print(f"{len(verdicts)} rows in {seconds:.0f} s, {differing} differ from the twins")
    return differing


def main(arguments: Sequence[str]) -> int:
    """Compare every row; return the exit code: 1 when one differs, 2 without a verdict."""
    parser = argparse.ArgumentParser(prog="python -m tests.spec.tlc", description=__doc__)
    parser.add_argument("--jar", type=Path, required=True, help="path of tla2tools.jar")
    parser.add_argument("--jobs", type=int, default=2, help="rows at the same time")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("only", nargs="*", help="rows with one of these words in their name")
    options = parser.parse_args(arguments)
    if not options.jar.is_file():
        parser.error(f"--jar {options.jar} is not a file: `make tlc` installs one")
    with tempfile.TemporaryDirectory() as scratch:
        java = str(java_home(Path(scratch)) / "bin" / "java")
        jar = options.jar.resolve()
        work = compare(java, jar, options.jobs, options.only, as_json=options.json)
        try:
            return min(asyncio.run(work), 1)
        except* NoVerdictError as group:
            print(group.exceptions[0], file=sys.stderr)
        except* KeyboardInterrupt:
            print("ended by hand", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
