"""Compare the twin with TLC: `make tlc TLA2TOOLS=path/to/tla2tools.jar`.

TLC must generate the same number of states, find the same number of distinct ones, and break the
same promise after the same number of steps. Needs Java and the jar; it is not part of `make test`.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
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

SPEC: Final = Path(__file__).parents[2] / "spec"
COUNTS: Final = re.compile(r"^(\d+) states generated, (\d+) distinct states found", re.MULTILINE)
DEPTH: Final = re.compile(r"depth of the complete state graph search is (\d+)")
STATE: Final = re.compile(r"^State (\d+): ", re.MULTILINE)


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
    return Task("Ledger", _configuration(constants, PROMISES, "SYMMETRY Sym"))


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
    lines = ["SPECIFICATION Spec", "CONSTANTS", *rows, *more, "CHECK_DEADLOCK FALSE"]
    return "\n".join([*lines, *(f"INVARIANT {name}" for name in invariants), ""])


def _set_of(members: Iterable[str]) -> str:
    return "{" + ", ".join(members) + "}"


def _written(value: object) -> str:
    return str(value).upper() if isinstance(value, bool) else str(value)


def model_check(jar: str, task: Task) -> Outcome:
    """Run TLC with one worker. Raises RuntimeError when it ends without a verdict."""
    with tempfile.TemporaryDirectory() as scratch:
        config = Path(scratch) / f"{task.module}.cfg"
        config.write_text(task.text)
        command = ["java", "-XX:+UseParallelGC", "-cp", jar, "tlc2.TLC", "-workers", "1", "-noTE"]
        command += ["-metadir", scratch, "-config", str(config), f"{task.module}.tla"]
        done = subprocess.run(command, cwd=SPEC, capture_output=True, text=True, check=False)
    counts, depth = COUNTS.search(done.stdout), DEPTH.search(done.stdout)
    broken = re.search(r"Invariant (\w+) is violated", done.stdout)
    if counts is None or depth is None or ("Error:" in done.stdout and broken is None):
        raise RuntimeError(f"TLC came to no verdict:\n{done.stdout[-2000:]}{done.stderr[-500:]}")
    length = max((int(number) for number in STATE.findall(done.stdout)), default=0)
    generated, distinct = (int(number) for number in counts.groups())
    if broken is not None:
        return Outcome(broken[1], length, generated, distinct)
    return Outcome(None, int(depth[1]), generated, distinct)


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


def _is_same(found: Outcome, expected: Outcome) -> bool:
    """The number of states before a violation depends on the order of the search."""
    if expected.broken is None:
        return found == expected
    return (found.broken, found.depth) == (expected.broken, expected.depth)


def main() -> int:
    """Compare every row; return how many differ."""
    jar = os.environ.get("TLA2TOOLS", "")
    if not all(Path(part).exists() for part in jar.split(":") if part) or not jar:
        print(f"TLA2TOOLS={jar!r} is not a jar: name the path of tla2tools.jar")
        return 2
    differing = 0
    for name, task, expected in _comparisons():
        found = model_check(jar, task)
        is_same = _is_same(found, expected)
        differing += not is_same
        verdict = "as the twin" if is_same else f"DIFFERS from the twin: {expected}"
        print(f"{name}: {found} {verdict}", flush=True)
    return min(differing, 1)


if __name__ == "__main__":
    raise SystemExit(main())
