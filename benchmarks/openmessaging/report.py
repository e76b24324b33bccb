"""The results: a table of each workload in Markdown, and a record in JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from benchmarks.openmessaging.runs import Run
from benchmarks.openmessaging.systems import OWN

_FIGURES = {
    "published/s": ("per_second", "{:,.0f}"),
    "consumed/s": ("consumed", "{:,.0f}"),
    "publish p50 ms": ("publish_p50_ms", "{:,.1f}"),
    "publish p99 ms": ("publish_p99_ms", "{:,.1f}"),
    "end to end p50 ms": ("through_p50_ms", "{:,.0f}"),
    "end to end p99 ms": ("through_p99_ms", "{:,.0f}"),
    "refused/s": ("errors", "{:,.1f}"),
    "backlog": ("backlog", "{:,.0f}"),
    "load": ("load", "{:.1f}"),
}
_COMPARED = "quire ÷ it, published/s [worst, best]"


def ratios(runs: Sequence[Run], system: str, workload: str) -> list[float]:
    """Return quire's rate over a system's, of each round that has both."""
    theirs = {each.round: each.per_second for each in of(runs, system, workload)}
    return [
        each.per_second / theirs[each.round]
        for each in of(runs, OWN, workload)
        if theirs.get(each.round)
    ]


def of(runs: Sequence[Run], system: str, workload: str) -> list[Run]:
    """Return the runs of a workload before a system, by round."""
    return [each for each in runs if (each.system, each.workload) == (system, workload)]


def tables(runs: Sequence[Run]) -> str:
    """Return a table of each workload, in Markdown: medians of the rounds, one system a row."""
    lines: list[str] = []
    for workload in dict.fromkeys(each.workload for each in runs):
        heads = [workload, *_FIGURES, _COMPARED]
        lines += [_row(heads), _row(["---"] * len(heads))]
        for system in sorted({each.system for each in runs}, key=lambda name: (name != OWN, name)):
            lines.append(_row([system, *_cells(runs, system, workload)]))
        lines.append("")
    return "\n".join(lines)


def _cells(runs: Sequence[Run], system: str, workload: str) -> list[str]:
    own = of(runs, system, workload)
    if not own:
        return ["–"] * (len(_FIGURES) + 1)
    cells = [
        form.format(statistics.median(getattr(each, name) for each in own))
        for name, form in _FIGURES.values()
    ]
    found = ratios(runs, system, workload)
    compared = "–"
    if system != OWN and found:
        compared = f"{statistics.median(found):.2f} [{min(found):.2f}, {max(found):.2f}]"
    return [*cells, compared]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def record(runs: Sequence[Run], about: Mapping[str, object]) -> str:
    """Return all runs as JSON, with facts about the machine and versions."""
    return json.dumps({**about, "runs": [asdict(each) for each in runs]}, indent=1) + "\n"
