"""`python -m tests.alerts [NAME…] [--json] [--promtool PATH]`: let each alert fire by its drill."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.alerts.drill import AlertDrill
from tests.alerts.monitor import DrillError, HeldTime, Monitor, VirtualTime
from tests.alerts.promtool import judge
from tests.alerts.table import DRILLS
from tests.support.virtual import virtually


def play(drill: AlertDrill) -> Monitor:
    """Play a drill, and return the monitor that saw its alerts fire. Raises `DrillError`."""

    async def played() -> Monitor:
        monitor = Monitor(HeldTime() if drill.is_real else VirtualTime(), drill.alerts)
        await drill.play(monitor)
        return monitor

    return asyncio.run(played()) if drill.is_real else virtually(played)


def play_all(
    names: Sequence[str],
    drills: Mapping[str, AlertDrill],
    promtool: Path | None = None,
    *,
    as_json: bool = False,
) -> int:
    """Play drills, print a line for each, and return how many failed."""
    failed = 0
    for name in names:
        began, fired, trouble = time.monotonic(), dict[str, float](), ""
        try:
            monitor = play(drills[name])
            fired = monitor.fired
            if promtool is not None:
                with tempfile.TemporaryDirectory(prefix="quire-drill-") as directory:
                    judge(promtool, monitor, Path(directory))
        except Exception as error:  # a drill that fails in any way must not end the others
            if not isinstance(error, DrillError):
                traceback.print_exc()
            trouble = f"{type(error).__name__}: {error}"
            failed += 1
        _tell(drills[name], time.monotonic() - began, fired, trouble, as_json=as_json)
    return failed


def _tell(
    drill: AlertDrill, seconds: float, fired: Mapping[str, float], trouble: str, *, as_json: bool
) -> None:
    outcome = "FAILED" if trouble else "ok"
    if as_json:
        fields = {"drill": drill.name, "outcome": outcome, "seconds": round(seconds, 1)}
        found = {alert: round(at) for alert, at in fired.items()}
        print(json.dumps({**fields, "fired_after_seconds": found, "trouble": trouble}), flush=True)
        return
    print(f"{outcome:6} {drill.name:20} {seconds:6.1f} s  {drill.state}")
    for alert, at in sorted(fired.items()):
        print(f"       {alert} fired {at / 60:.0f} min after the first scrape", flush=True)
    if trouble:
        print(f"       {trouble}", flush=True)


def main() -> int:
    """Play the drills that the command names, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.alerts", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(DRILLS)}")
    parser.add_argument("--json", action="store_true", help="print a JSON object for each drill")
    parser.add_argument("--promtool", type=Path, help="has Prometheus judge the series as well")
    options = parser.parse_args()
    logging.getLogger("quire").setLevel(logging.CRITICAL)  # trouble is the point
    if unknown := [each for each in options.names if each not in DRILLS]:
        parser.error(f"no drill is named {unknown[0]}: choose of {', '.join(DRILLS)}")
    try:
        names = options.names or list(DRILLS)
        return min(1, play_all(names, DRILLS, options.promtool, as_json=options.json))
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
