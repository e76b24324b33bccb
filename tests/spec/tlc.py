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
from typing import Final

from tests.spec.bounds import PASSING, REDUNDANT, REMOVED, THOROUGH
from tests.spec.checker import Outcome
from tests.spec.ledger import SAFEGUARDS, Bounds

SPEC: Final = Path(__file__).parents[2] / "spec"
COUNTS: Final = re.compile(r"^(\d+) states generated, (\d+) distinct states found", re.MULTILINE)
DEPTH: Final = re.compile(r"depth of the complete state graph search is (\d+)")
STATE: Final = re.compile(r"^State (\d+): ", re.MULTILINE)


def configuration(bounds: Bounds, removed: Iterable[str], invariants: Iterable[str]) -> str:
    """Return the text of a configuration file of TLC."""
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
        **{name: name not in set(removed) for name in SAFEGUARDS},
    }
    rows = [f"  {name} = {_written(value)}" for name, value in constants.items()]
    lines = ["SPECIFICATION Spec", "CONSTANTS", *rows, "SYMMETRY Sym", "CHECK_DEADLOCK FALSE"]
    return "\n".join([*lines, *(f"INVARIANT {name}" for name in invariants), ""])


def _set_of(members: Iterable[str]) -> str:
    return "{" + ", ".join(members) + "}"


def _written(value: object) -> str:
    return str(value).upper() if isinstance(value, bool) else str(value)


def model_check(jar: str, bounds: Bounds, removed: Iterable[str] = ()) -> Outcome:
    """Run TLC with one worker. Raises RuntimeError when it ends without a verdict."""
    promises = ["L1", "M1", "L2", "L3", "L4", "L5"]
    with tempfile.TemporaryDirectory() as scratch:
        config = Path(scratch) / "Ledger.cfg"
        config.write_text(configuration(bounds, removed, promises))
        command = ["java", "-XX:+UseParallelGC", "-cp", jar, "tlc2.TLC", "-workers", "1", "-noTE"]
        command += ["-metadir", scratch, "-config", str(config), "Ledger.tla"]
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


def _comparisons(jar: str) -> Iterator[tuple[str, bool, Outcome]]:
    for name, (bounds, expected) in {**PASSING, **THOROUGH}.items():
        found = model_check(jar, bounds)
        yield name, found == expected, found
    for safeguard, (bounds, expected) in REDUNDANT.items():
        found = model_check(jar, bounds, [safeguard])
        yield f"without {safeguard}", found == expected, found
    for each in REMOVED:
        found = model_check(jar, each.bounds, [each.safeguard])
        # The number of states before a violation depends on the order of the search.
        same = (found.broken, found.depth) == (each.outcome.broken, each.outcome.depth)
        yield f"without {each.safeguard}", same, found


def main() -> int:
    """Compare every row; return how many differ."""
    jar = os.environ.get("TLA2TOOLS", "")
    if not all(Path(part).exists() for part in jar.split(":") if part) or not jar:
        print(f"TLA2TOOLS={jar!r} is not a jar: name the path of tla2tools.jar")
        return 2
    differing = 0
    for name, same, found in _comparisons(jar):
        differing += not same
        print(f"{name}: {found} {'as the twin' if same else 'DIFFERS from the twin'}", flush=True)
    return min(differing, 1)


if __name__ == "__main__":
    raise SystemExit(main())
