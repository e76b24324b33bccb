"""`python -m tests.drills [NAME…] [--json]`: play drills one after the other."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import time
import traceback
from collections.abc import Mapping, Sequence

from tests.drills.drills import DRILLS, Drill
from tests.drills.scene import DrillError, Proof


def promise(drill: Drill) -> str:
    """Return what a drill proves, in one line."""
    assert drill.__doc__ is not None
    return drill.__doc__.splitlines()[0]


def play(names: Sequence[str], drills: Mapping[str, Drill], *, as_json: bool) -> int:
    """Play drills, print two lines for each, and return how many failed."""
    failed, start = 0, time.monotonic()
    for name in names:
        began = time.monotonic()
        if sys.stderr.isatty():
            print(f"playing {name}: {promise(drills[name])}", file=sys.stderr)
        try:
            proof = asyncio.run(_played(drills[name]))
            outcome, (said, size, what) = "ok", proof
        except Exception as error:  # a drill that fails in any way must not end the others
            if not isinstance(error, DrillError):
                traceback.print_exc()
            outcome, said = "FAILED", f"{type(error).__name__}: {error}"
            size, what = 0, ""
            failed += 1
        seconds = time.monotonic() - began
        if as_json:
            fields = {"drill": name, "outcome": outcome, "seconds": round(seconds, 1)}
            said_too = {"bytes": size, "of": what, "promise": promise(drills[name]), "found": said}
            print(json.dumps({**fields, **said_too}), flush=True)
        else:
            print(f"{outcome:6} {name:8} {seconds:6.1f} s  {promise(drills[name])}")
            counted = f"; {size:,} bytes {what}" if what else ""
            print(f"       {said}{counted}", flush=True)
    if not as_json:
        seconds = time.monotonic() - start
        print(f"{len(names)} drills in {seconds:.0f} s, {failed} failed", flush=True)
    return failed


async def _played(drill: Drill) -> Proof:
    try:
        return await drill()
    except* DrillError as errors:  # of a task group
        raise errors.exceptions[0] from None


def main() -> int:
    """Play the drills that the command names, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.drills", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(DRILLS)}")
    parser.add_argument("--json", action="store_true", help="print a JSON object for each drill")
    options = parser.parse_args()
    logging.getLogger("quire").setLevel(logging.ERROR)  # bookies that are down are the point
    if unknown := [each for each in options.names if each not in DRILLS]:
        parser.error(f"no drill is named {unknown[0]}: choose of {', '.join(DRILLS)}")
    try:
        return min(1, play(options.names or list(DRILLS), DRILLS, as_json=options.json))
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
