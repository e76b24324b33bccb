"""The figures of healing, from the auditor's summary: the rows of `Owner.HEALING` in the table of
metrics (quire/metrics/table.py).

Every bookie shows them, whichever process audits: so they are shown without an auditor, with the
age of the report. Nothing is counted here.

Pure, but for `read_figures`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import Final

from quire.healing.summary import Count, State, Summary, read_summary
from quire.healing.switch import Switch, read_switch
from quire.healing.tally import Tally
from quire.metastore.store import MetadataStore

Figures = Mapping[str, Mapping[tuple[str, ...], float]]
"""By the name of a metric: its values by labels."""

REASONS: Final = tuple(each for each in Count if each is not Count.ASKED)
"""The reasons why a ledger is counted."""


def figures(summary: Summary | None, switch: Switch, now_ms: int) -> Figures:
    """Return the figures at a time. Before the first summary its age is infinite, and most other
    figures are missing: nothing is known.
    """
    pause = switch.pause
    is_paused = pause is not None and pause.seconds_left(now_ms) > 0
    found: dict[str, Mapping[tuple[str, ...], float]] = {
        "quire_healing_paused": {(): float(is_paused)},
        "quire_healing_summary_age_seconds": {
            (): math.inf if summary is None else summary.age_seconds(now_ms)
        },
    }
    return found if summary is None else {**found, **_known(summary, now_ms)}


def _known(summary: Summary, now_ms: int) -> Figures:
    tally = {**Tally().fields(), **summary.totals}
    counters: dict[str, Mapping[tuple[str, ...], float]] = {
        f"quire_healing_{name}_total": {(): float(tally[name])}
        for name in Tally().fields()
        if name != "round_ms"
    }
    oldest = max(0, now_ms - summary.oldest_ms) if summary.oldest_ms else 0
    return {
        "quire_healing_state": {(str(each),): float(each is summary.state) for each in State},
        "quire_healing_ledgers": {(str(each),): float(summary.count(each)) for each in REASONS},
        "quire_healing_requests_open": {(): float(summary.count(Count.ASKED))},
        "quire_healing_oldest_seconds": {(): oldest / 1000},
        "quire_auditor_index_ready": {(): _share(summary)},
        "quire_auditor_round_seconds": {(): tally["round_ms"] / 1000},
        "quire_bookies": {(state,): float(count) for state, count in summary.bookies.items()},
        **counters,
    }


def _share(summary: Summary) -> float:
    if summary.state is not State.BUILDING:
        return 1.0
    return summary.indexed / summary.ledgers if summary.ledgers else 0.0


async def read_figures(store: MetadataStore, clock: Callable[[], float]) -> Figures:
    """Return the figures now; `clock` is the wall clock in seconds.

    Raises `CorruptRecordError` and the store's errors.
    """
    summary, switch = await asyncio.gather(read_summary(store), read_switch(store))
    return figures(summary, switch, round(clock() * 1000))
