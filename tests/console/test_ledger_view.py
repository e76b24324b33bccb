"""A ledger as a matrix of fragments and bookies, with its holes."""

from __future__ import annotations

from quire.console.views.ledgers import LedgerPage, one_ledger
from quire.entry import BookieId, DigestKind
from quire.errors import BookieUnavailableError, QuireError
from quire.ledger.inventory import compare
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState
from quire.ledger.quorum import Replication
from quire.ledger.ranges import Ranges
from tests.console.scene import NOW

FRAGMENTS = (Fragment(0, ("a", "b", "c")), Fragment(100, ("a", "b", "d")))


def metadata(last: int | None = 199) -> LedgerMetadata:
    return LedgerMetadata(
        ledger=7,
        replication=Replication(3, 3, 2),
        digest=DigestKind.CRC32C,
        key_check="00",
        state=LedgerState.OPEN if last is None else LedgerState.CLOSED,
        fragments=FRAGMENTS,
        last_entry=last,
        length=None if last is None else 2_000,
        created_ms=NOW,
        custom_metadata={"log": "orders", "segment": "3"},
    )


def page(answers: dict[BookieId, Ranges | QuireError], last: int | None = 199) -> LedgerPage:
    return one_ledger(compare(metadata(last), answers), NOW)


def kinds(view: LedgerPage) -> list[list[str]]:
    return [[cell.kind for cell in row.cells] for row in view.fragments]


def test_every_entry_is_where_it_belongs() -> None:
    whole = [(0, 199)]
    view = page({"a": whole, "b": whole, "c": [(0, 99)], "d": [(100, 199)]})
    assert view.bookies == ["a", "b", "c", "d"]
    assert kinds(view) == [["full", "full", "full", ""], ["full", "full", "", "full"]]
    assert (view.severity, view.headline) == ("ok", "Every entry has its copies")
    assert (view.row.log, view.row.segment, view.row.entries) == ("orders", "3", 200)


def test_holes_silence_and_superfluous_copies_are_told_apart() -> None:
    down = BookieUnavailableError("d", "refused")
    answers: dict[BookieId, Ranges | QuireError] = {
        "a": [(0, 9), (20, 199)],
        "b": [(0, 199)],
        "c": [(0, 120)],
        "d": down,
    }
    view = page(answers)
    assert kinds(view) == [["holes", "full", "full", ""], ["full", "full", "extra", "silent"]]
    assert view.fragments[0].cells[0].text == "10 holes, 90 entries"
    assert view.severity == "warning"
    assert view.headline == "10 entries short of a copy"
    assert view.silent == {"d": str(down)}
    assert [(each.first, each.last, each.copies) for each in view.shortages] == [
        (10, 19, 2),
        (100, 199, 2),
    ]


def test_an_entry_on_no_bookie_is_critical() -> None:
    held = [(0, 9), (11, 199)]
    view = page({"a": held, "b": held, "c": held, "d": held})
    assert (view.severity, view.headline) == ("critical", "1 entry on no bookie")
    assert view.shortages[0].severity == "critical"


def test_the_last_fragment_of_an_open_ledger_is_not_judged() -> None:
    view = page({"a": [(0, 120)], "b": [(0, 130)], "c": [(0, 99)], "d": []}, last=None)
    assert kinds(view)[1] == ["open", "open", "", "open"]
    assert view.fragments[1].last is None
    assert view.severity == "ok"
