"""Ledgers: a page of them, and one as a matrix of fragments and bookies with its holes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from quire.console import words
from quire.console.views.paging import ROWS_MAX
from quire.console.views.troubles import CRITICAL, OK, UNKNOWN, WARNING
from quire.entry import BookieId, EntryId
from quire.ledger.info import LedgerInfo
from quire.ledger.inventory import Holding, Inventory
from quire.ledger.ranges import Ranges

FULL, HOLES, SILENT, EXTRA, OPEN, NOT_HERE = "full", "holes", "silent", "extra", "open", ""

COLUMNS_MAX: Final = 60
"""Bookies of one matrix."""

SEVERITIES: Final[Mapping[str, str]] = {
    FULL: OK,
    HOLES: WARNING,
    SILENT: UNKNOWN,
    EXTRA: UNKNOWN,
    OPEN: OK,
    NOT_HERE: UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One ledger. `log` is the log that it is a segment of, by its label."""

    ledger: int
    state: str
    log: str
    segment: str
    replication: str
    fragments: int
    entries: int | None
    bytes: int | None
    created: str


@dataclass(frozen=True, slots=True)
class LedgersPage:
    """A page of ledgers by id, from `first` on. `next` is where the next page begins; None at the
    end.
    """

    first: int
    rows: Sequence[LedgerRow]
    next: int | None
    total: int | None
    """All ledgers, as far as the auditor knows."""
    damaged: Sequence[str]
    """Records of this page that cannot be read."""
    at_ms: int


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """The part of a fragment that a bookie has. `kind` is full, holes, silent, extra, open or
    empty.
    """

    bookie: str
    kind: str
    severity: str
    missing: int
    text: str


@dataclass(frozen=True, slots=True)
class FragmentRow:
    """One fragment and its cells, one for each bookie of the matrix."""

    first: int
    last: int | None
    cells: Sequence[MatrixCell]


@dataclass(frozen=True, slots=True)
class ShortageRow:
    """Entries with too few copies."""

    first: int
    last: int
    copies: int
    unknown: int
    severity: str


@dataclass(frozen=True, slots=True)
class LedgerPage:
    """A ledger, and where its entries are."""

    row: LedgerRow
    severity: str
    headline: str
    digest: str
    placement: str
    labels: Mapping[str, str]
    bookies: Sequence[str]
    fragments: Sequence[FragmentRow]
    fragments_total: int
    shortages: Sequence[ShortageRow]
    shortages_total: int
    silent: Mapping[str, str]
    """Bookies that gave no answer, with the reason."""
    at_ms: int


def ledger_row(info: LedgerInfo) -> LedgerRow:
    """Return the row of a ledger."""
    replication = info.replication
    return LedgerRow(
        info.ledger,
        str(info.state),
        info.custom_metadata.get("log", ""),
        info.custom_metadata.get("segment", ""),
        f"{replication.ensemble}/{replication.write_quorum}/{replication.ack_quorum}",
        len(info.fragments),
        None if info.last_entry is None else info.last_entry + 1,
        info.length,
        words.moment(info.created_ms) if info.created_ms else words.NONE,
    )


def one_ledger(inventory: Inventory, now_ms: int) -> LedgerPage:
    """Return the page of a ledger from its inventory."""
    info = inventory.ledger
    holdings = {each.bookie: each for each in inventory.holdings}
    bookies = _columns(info, holdings)
    shown = info.fragments[-ROWS_MAX:]
    ends = [fragment.first - 1 for fragment in info.fragments[1:]]
    lasts: list[EntryId | None] = [*ends, info.last_entry]
    rows = [
        FragmentRow(
            fragment.first,
            last,
            [
                _cell(each, holdings.get(each), each in fragment.bookies, fragment.first, last)
                for each in bookies
            ],
        )
        for fragment, last in zip(shown, lasts[-len(shown) :], strict=True)
    ]
    severity, headline = _judge(inventory)
    return LedgerPage(
        ledger_row(info),
        severity,
        headline,
        str(info.digest),
        str(info.placement),
        dict(sorted(info.custom_metadata.items())),
        bookies,
        rows,
        len(info.fragments),
        [
            ShortageRow(
                *(each.first, each.last, each.copies, each.unknown),
                CRITICAL if not each.copies and not each.unknown else WARNING,
            )
            for each in inventory.shortages[:ROWS_MAX]
        ],
        len(inventory.shortages),
        {each.bookie: each.error for each in inventory.holdings if each.error},
        now_ms,
    )


def _columns(info: LedgerInfo, holdings: Mapping[BookieId, Holding]) -> list[BookieId]:
    named = sorted({bookie for each in info.fragments for bookie in each.bookies})
    others = sorted(holdings.keys() - set(named))
    return [*named, *others][:COLUMNS_MAX]


def _judge(inventory: Inventory) -> tuple[str, str]:
    lost, short = inventory.lost, inventory.shortages
    if lost:
        return CRITICAL, f"{words.plural(_entries(lost), 'entry', 'entries')} on no bookie"
    if any(not each.unknown for each in short):
        count = _entries([each for each in short if not each.unknown])
        return WARNING, f"{words.plural(count, 'entry', 'entries')} short of a copy"
    if short:
        return UNKNOWN, "Some bookies do not answer: their copies are not known"
    if inventory.compared_to < 0:
        return OK, "Open: nothing is decided yet that could be missing"
    return OK, "Every entry has its copies"


def _entries(shortages: Sequence[object]) -> int:
    return sum(each.last - each.first + 1 for each in shortages)  # type: ignore[attr-defined]


def _cell(
    bookie: BookieId, holding: Holding | None, is_member: bool, first: EntryId, last: EntryId | None
) -> MatrixCell:
    held = 0 if holding is None else _within(holding.held, first, last)
    missing = 0 if holding is None else _within(holding.missing, first, last)
    silent = holding is not None and bool(holding.error)
    count = words.plural(held, "entry", "entries")
    if not is_member:
        kind, text = (EXTRA, f"{count}, not asked for") if held else (NOT_HERE, "")
    elif silent or holding is None:
        kind, text = SILENT, "no answer"
    elif missing:
        kind, text = HOLES, f"{words.plural(missing, 'hole')}, {count}"
    elif last is None:
        kind, text = OPEN, f"{count} so far"
    else:
        kind, text = FULL, count
    return MatrixCell(bookie, kind, SEVERITIES[kind], missing, text)


def _within(ranges: Ranges, first: EntryId, last: EntryId | None) -> int:
    """Return how many ids of some ranges are in first..last."""
    return sum(
        max(0, (high if last is None else min(high, last)) - max(low, first) + 1)
        for low, high in ranges
    )
