"""The results: a table in Markdown, a record in JSON, and a plot of the ratios."""

from __future__ import annotations

import html
import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.peers.others import is_other, place_of_other
from benchmarks.peers.workloads import KINDS, Kind, Workload
from quire.bench.figures import Figures

OWN: Final = "quire"
BAR: Final = 14
LEFT: Final = 250
WIDTH: Final = 640
COLORS: Final = (
    "#1f77b4",
    "#ff7f0e",
    "#2ca02c",
    "#d62728",
    "#9467bd",
    "#8c564b",
    "#e377c2",
    "#7f7f7f",
    "#bcbd22",
    "#17becf",
)
WRITES_UNKNOWN: Final = ("PostgreSQL",)
"""With one INSERT per commit, `write_bytes` of its processes is 23 times the bytes that reach the
device. Perhaps Linux counts whole folios of files of WAL.
"""
CUT: Final = 12.0
"""A longer bar is cut, and its number marked: else one peer would make all other bars invisible."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one workload by one peer."""

    round: int
    peer: str
    kind: Kind
    workload: str
    per_second: float
    p50_ms: float
    p99_ms: float
    client_us: float
    """Of the client's processor, for each entry."""
    servers_us: float
    """Of the processors of all servers that store entries, for each entry."""
    flushes_per_second: float
    """Of the machine's devices."""
    written_per_byte: float
    """Bytes that the servers wrote for each byte of payload."""
    memory_mb: float
    """Resident memory of all servers that store entries, after the run."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What the machine does by itself, measured at the beginning of a round."""

    round: int
    name: str
    per_second: float
    size: int
    """Bytes of each."""
    p50_ms: float

    @classmethod
    def of(cls, number: int, figures: Figures) -> Limit:
        """Return a limit of a round."""
        return cls(number, figures.name, figures.per_second, figures.size, figures.p50_ms)


class Results:
    """All runs so far. A ratio is the median of the ratios of the rounds."""

    def __init__(self, runs: Sequence[Run], limits: Sequence[Limit] = ()) -> None:
        self.runs = list(runs)
        self.limits = list(limits)

    def of(self, peer: str, workload: str) -> list[Run]:
        """Return a peer's runs of a workload, by round."""
        return [run for run in self.runs if (run.peer, run.workload) == (peer, workload)]

    def peers(self, kind: Kind) -> list[str]:
        """Return the peers of a kind, in the order of their first run."""
        return list(dict.fromkeys(run.peer for run in self.runs if run.kind == kind))

    def ratios(self, peer: str, workload: str) -> list[float]:
        """Return quire's rate over a peer's, of each round that has both."""
        theirs = {run.round: run.per_second for run in self.of(peer, workload)}
        return [
            run.per_second / theirs[run.round]
            for run in self.of(OWN, workload)
            if theirs.get(run.round)
        ]


def tables(results: Results, workloads: Iterable[Workload]) -> str:
    """Return tables of each kind, in Markdown.

    PostgreSQL, Redis, etcd and NATS have tables of their own, and the machine's raw limits.
    """
    lines = _limits(results.limits)
    wanted = list(workloads)
    for kind in KINDS:
        if OWN not in results.peers(kind):
            continue
        for peers in _groups(results.peers(kind)):
            lines += _rates(results, [w for w in wanted if w.kind == kind], peers)
            lines += _costs(results, [w for w in wanted if w.kind == kind], [OWN, *peers])
    return "\n".join(lines)


def _limits(limits: Sequence[Limit]) -> list[str]:
    if not limits:
        return []
    lines = _head("raw limits of the machine", "per second [worst, best]", "MB/s", "p50 ms")
    for name in dict.fromkeys(each.name for each in limits):
        found = [each for each in limits if each.name == name]
        rates = [each.per_second for each in found]
        rate, wait = statistics.median(rates), statistics.median(each.p50_ms for each in found)
        cells = (f"{rate:,.0f} [{min(rates):,.0f}, {max(rates):,.0f}]", f"{wait:.2f}")
        lines.append(_row(name, cells[0], f"{rate * found[0].size / 1e6:,.0f}", cells[1]))
    return [*lines, ""]


def _groups(peers: Iterable[str]) -> list[list[str]]:
    """Return the peers of each table; quire alone has one too."""
    theirs = [peer for peer in peers if peer != OWN]
    groups = [
        sorted(peer for peer in theirs if not is_other(peer)),
        sorted((peer for peer in theirs if is_other(peer)), key=place_of_other),
    ]
    return [group for group in groups if group] or [[]]


def _rates(results: Results, workloads: Iterable[Workload], others: Sequence[str]) -> list[str]:
    heads = [f"quire ÷ {peer} [worst, best]" for peer in others]
    lines = _head("per second", OWN, *others, *heads)
    for workload in workloads:
        cells = []
        for peer in (OWN, *others):
            rates = [run.per_second for run in results.of(peer, workload.name)]
            cells.append(f"{statistics.median(rates):,.0f}" if rates else "–")
        cells += [_ratio(results.ratios(peer, workload.name)) for peer in others]
        lines.append(_row(workload.name, *cells))
    return [*lines, ""]


def _ratio(found: Sequence[float]) -> str:
    """Return a median, with the worst and the best of several rounds."""
    if not found:
        return "–"
    spread = f" [{min(found):.2f}, {max(found):.2f}]" if len(found) > 1 else ""
    return f"{statistics.median(found):.2f}{spread}"


def _costs(results: Results, workloads: Iterable[Workload], peers: Sequence[str]) -> list[str]:
    lines = _head("p50 / p99 ms · µs of client + servers · written · flushes/s · MB", *peers)
    for workload in workloads:
        cells = []
        for peer in peers:
            runs = results.of(peer, workload.name)
            cells.append(_cost(runs, reading=not workload.in_flight) if runs else "–")
        lines.append(_row(workload.name, *cells))
    return [*lines, ""]


def _cost(runs: Sequence[Run], *, reading: bool) -> str:
    def median(name: str) -> float:
        return float(statistics.median(getattr(run, name) for run in runs))

    work = f"{median('client_us'):.1f} + {median('servers_us'):.1f}"
    if reading:
        return f"– · {work} · – · – · {median('memory_mb'):,.0f}"
    is_known = runs[0].peer not in WRITES_UNKNOWN
    written = f"{median('written_per_byte'):.1f}" if is_known else "–"
    return (
        f"{median('p50_ms'):.2f} / {median('p99_ms'):.1f} · {work} · "
        f"{written} · {median('flushes_per_second'):,.0f} · "
        f"{median('memory_mb'):,.0f}"
    )


def _head(*cells: str) -> list[str]:
    return [_row(*cells), _row(*("---" for _ in cells))]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def record(results: Results, about: dict[str, object]) -> str:
    """Return all runs and limits in JSON, with facts about machine and versions."""
    found = {name: [asdict(each) for each in getattr(results, name)] for name in ("limits", "runs")}
    return json.dumps({**about, **found}, indent=1) + "\n"


def read_record(path: Path) -> Results:
    """Read a record of `record`. Raises `OSError`, `ValueError`, `TypeError`."""
    found = json.loads(path.read_text())
    limits = [Limit(**each) for each in found.get("limits", ())]
    return Results([Run(**each) for each in found["runs"]], limits)


class Comparison(NamedTuple):
    """Ratios beside those of an earlier record."""

    fallen: list[str]
    """A line for each ratio that fell."""
    compared: int
    missing: int
    """Ratios that the earlier record does not have."""

    def __str__(self) -> str:
        new = f"; {self.missing} are not in the record" if self.missing else ""
        return f"{self.compared} ratios compared with the record, {len(self.fallen)} fell{new}"


def compare_with(results: Results, earlier: Results, share: float = 0.8) -> Comparison:
    """Compare the medians of all ratios. A ratio fell when it is below a share of its earlier
    value.
    """
    lines: list[str] = []
    compared = missing = 0
    for kind in KINDS:
        for peer in results.peers(kind):
            for workload in dict.fromkeys(r.workload for r in results.runs if r.kind == kind):
                then, now = earlier.ratios(peer, workload), results.ratios(peer, workload)
                if peer == OWN or not now:
                    continue
                if not then:
                    missing += 1
                    continue
                compared += 1
                before, after = statistics.median(then), statistics.median(now)
                if after < share * before:
                    lines.append(f"{workload}: {after:.2f} × {peer}, was {before:.2f} ×")
    return Comparison(lines, compared, missing)


def plot(results: Results, workloads: Iterable[Workload]) -> str:
    """Return bars of quire's rate over each peer's, as SVG; the line is 1."""
    rows = []
    for workload in workloads:
        others = [peer for peer in results.peers(workload.kind) if peer != OWN]
        found = [(peer, results.ratios(peer, workload.name)) for peer in others]
        rows.append((workload.name, [(p, statistics.median(r)) for p, r in found if r]))
    peers = list(dict.fromkeys(peer for _, bars in rows for peer, _ in bars))
    most = max((ratio for _, bars in rows for _, ratio in bars), default=1.0)
    scale = (WIDTH - LEFT - 60) / min(max(most, 1.0), CUT)
    parts, y = [], 30
    for number, peer in enumerate(peers):
        x, color = LEFT + 190 * (number % 2), COLORS[number % len(COLORS)]
        parts += [
            f'<rect x="{x}" y="{y - 11}" width="12" height="12" fill="{color}"/>',
            f'<text x="{x + 18}" y="{y}">quire ÷ {html.escape(peer)}</text>',
        ]
        y += 20 * (number % 2)
    y += 30
    top = y - 16
    for name, bars in rows:
        if not bars:
            continue
        parts.append(f'<text x="{LEFT - 10}" y="{y}" text-anchor="end">{html.escape(name)}</text>')
        for peer, ratio in bars:
            color = COLORS[peers.index(peer) % len(COLORS)]
            wide = min(ratio, CUT) * scale
            cut = " …" if ratio > CUT else ""
            parts += [
                f'<rect x="{LEFT}" y="{y - 11}" width="{wide:.0f}" height="{BAR - 2}" '
                f'fill="{color}"/>',
                f'<text x="{LEFT + wide + 5:.0f}" y="{y}">{ratio:.2f}{cut}</text>',
            ]
            y += BAR
        y += 8
    line = LEFT + scale
    parts.append(
        f'<line x1="{line:.0f}" x2="{line:.0f}" y1="{top}" y2="{y - 16}" stroke="#666" '
        'stroke-dasharray="3 3"/>'
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" '
        f'viewBox="0 0 {WIDTH} {y}" font-family="sans-serif" font-size="12" role="img" '
        'aria-label="quire beside its peers">'
    )
    back = f'<rect width="{WIDTH}" height="{y}" fill="#fff"/>'
    return "\n".join([head, back, *parts, "</svg>"]) + "\n"
