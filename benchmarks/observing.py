"""Measure an observer without a listener and with an event log: `python -m benchmarks.observing`.

Processor time of one call, the best of some repetitions, less that of an empty loop.
"""

from __future__ import annotations

import tempfile
import time
import timeit
from pathlib import Path
from typing import Final

from quire.event_log import EventLog
from quire.observer import SILENT, Observer, Source

CALLS: Final = 50_000
REPETITIONS: Final = 20
ENTRIES: Final = range(100)


def nanoseconds(statement: str, observer: Observer) -> float:
    """Return the processor time of a statement."""
    names = {"observer": observer, "entries": ENTRIES, "source": Source.WRITER}
    timer = timeit.Timer(statement, timer=time.process_time, globals=names)
    return 1e9 * min(timer.repeat(REPETITIONS, CALLS)) / CALLS


def main() -> None:
    calls = {
        "a run of 100 entries is held": "observer.held(7, entries, source)",
        "LAC moved": "observer.confirmed(7, 9)",
    }
    empty = nanoseconds("pass", SILENT)
    with tempfile.TemporaryDirectory() as directory:
        log = EventLog(Path(directory), "bookie", "b")
        for name, statement in calls.items():
            silent, told = (nanoseconds(statement, each) - empty for each in (SILENT, log))
            print(f"{name}: {silent:.0f} ns without a listener, {told:,.0f} ns with an event log")
        log.close()


if __name__ == "__main__":
    main()
