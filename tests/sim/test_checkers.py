"""Every checker catches the violation it is there for, and passes a history without one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from quire.entry import DigestKind
from quire.ledger.metadata import Fragment, LedgerMetadata
from quire.ledger.quorum import Replication
from quire.log.records.position import Appended, Position
from tests.sim.checkers import FinalLedger, check_ledger
from tests.sim.history import End, LedgerHistory, LogHistory, Outcome, Seen, Violation
from tests.sim.log_checkers import check_log

BOOKIES = ("b0", "b1", "b2")
OPEN = LedgerMetadata(7, Replication(3, 3, 2), DigestKind.CRC32C, "k", (Fragment(0, BOOKIES),))


def healthy() -> tuple[FinalLedger, LedgerHistory]:
    """A ledger of three entries; the last one's writer never heard of its fate."""
    payloads = [b"a", b"b", b"c"]
    history = LedgerHistory()
    for entry, payload in enumerate(payloads):
        append = history.offer("w", 7, payload)
        if entry < 2:
            append.outcome, append.entry = Outcome.OK, entry
    history.offer("w", 7, b"d")
    history.read("r", 7, 1).entries = [(1, b"b"), (2, b"c")]
    copies = {entry: dict.fromkeys(BOOKIES, payload) for entry, payload in enumerate(payloads)}
    return FinalLedger(OPEN.closed(2, 3), payloads, copies, dict.fromkeys(BOOKIES, 2)), history


def truncate(final: FinalLedger, history: LedgerHistory) -> None:
    final.metadata, final.payloads = OPEN.closed(0, 1), [b"a"]


def swap(final: FinalLedger, history: LedgerHistory) -> None:
    final.payloads[0], final.payloads[1] = b"b", b"a"


def invent(final: FinalLedger, history: LedgerHistory) -> None:
    final.payloads[2] = b"x"


def reorder(final: FinalLedger, history: LedgerHistory) -> None:
    final.payloads[2] = b"d"


def lie_about_length(final: FinalLedger, history: LedgerHistory) -> None:
    final.metadata = OPEN.closed(2, 99)


def disagree_about_end(final: FinalLedger, history: LedgerHistory) -> None:
    history.ends.append(End("x", 7, 1))


def lose_copies(final: FinalLedger, history: LedgerHistory) -> None:
    final.copies[1] = {"b0": b"b"}


def differ(final: FinalLedger, history: LedgerHistory) -> None:
    final.copies[1]["b2"] = b"z"


def stay_torn(final: FinalLedger, history: LedgerHistory) -> None:
    final.lacking["b2"] = [1]


def hint_too_much(final: FinalLedger, history: LedgerHistory) -> None:
    final.hints["b1"] = 3


def read_beyond(final: FinalLedger, history: LedgerHistory) -> None:
    history.readings[0].entries.append((3, b"d"))


def read_other_bytes(final: FinalLedger, history: LedgerHistory) -> None:
    history.readings[0].entries[0] = (1, b"z")


def skip_entry(final: FinalLedger, history: LedgerHistory) -> None:
    history.readings[0].entries.pop(0)


def test_a_healthy_ledger_passes() -> None:
    check_ledger(*healthy())


@pytest.mark.parametrize(
    ("plant", "name"),
    [
        (truncate, "no acknowledged entry is lost"),
        (swap, "no acknowledged entry is lost"),
        (invent, "one history"),
        (reorder, "one history"),
        (lie_about_length, "one history"),
        (disagree_about_end, "closed is final"),
        (lose_copies, "committed entries reach the ack quorum"),
        (differ, "committed entries reach the ack quorum"),
        (stay_torn, "B9 a repaired bookie is whole"),
        (hint_too_much, "no dirty reads"),
        (read_beyond, "no dirty reads"),
        (read_other_bytes, "no dirty reads"),
        (skip_entry, "readers skip nothing"),
    ],
)
def test_ledger_checkers_catch(
    plant: Callable[[FinalLedger, LedgerHistory], None], name: str
) -> None:
    final, history = healthy()
    plant(final, history)
    with pytest.raises(Violation, match=name):
        check_ledger(final, history)


# -- logs ------------------------------------------------------------------------------------------


def log_scene() -> tuple[list[list[Seen]], LogHistory]:
    """Two leaders; the first one's last batch is kept though it never heard."""
    history = LogHistory()
    final = [
        Seen(Position(1, 0, 0), 0, 1, b"a"),
        Seen(Position(1, 1, 0), 1, 1, b"b"),
        Seen(Position(1, 1, 1), 2, 1, b"c"),
        Seen(Position(2, 0, 0), 3, 2, b"d"),
    ]
    history.confirm(history.offer("one", 1, (b"a",)), [Appended(Position(1, 0, 0), 0)])
    history.offer("one", 1, (b"b", b"c"))
    history.confirm(history.offer("two", 2, (b"d",)), [Appended(Position(2, 0, 0), 3)])
    failed = history.offer("two", 2, (b"never",))
    failed.outcome = Outcome.FAILED
    history.read("follower", Position(0, 0, 0)).records = list(final)
    return [list(final), list(final)], history


Plant = Callable[[list[list[Seen]], LogHistory], None]


def both(change: Callable[[list[Seen]], object]) -> Plant:
    def plant(finals: list[list[Seen]], history: LogHistory) -> None:
        for final in finals:
            change(final)

    return plant


def followers(change: Callable[[list[Seen]], object]) -> Plant:
    def plant(finals: list[list[Seen]], history: LogHistory) -> None:
        change(history.readings[0].records)

    return plant


def lose_last(finals: list[list[Seen]], history: LogHistory) -> None:
    for final in (*finals, history.readings[0].records):
        del final[3]


def twice(final: list[Seen]) -> None:
    final.append(Seen(Position(2, 1, 0), 4, 2, b"b"))


def out_of_order(finals: list[list[Seen]], history: LogHistory) -> None:
    late = history.offer("one", 1, (b"b",))
    late.after = None
    history.confirm(late, [Appended(Position(1, 1, 0), 1)])
    history.appends.append(history.appends.pop(0))


def spread(finals: list[list[Seen]], history: LogHistory) -> None:
    history.appends[0].payloads = (b"a", b"b")
    history.appends[0].positions = (Position(1, 0, 0), Position(1, 1, 0))


def stale(finals: list[list[Seen]], history: LogHistory) -> None:
    late = history.offer("one", 1, (b"b", b"c"))
    history.confirm(late, [Appended(Position(1, 1, slot), 1 + slot) for slot in (0, 1)])


def interleaved(finals: list[list[Seen]], history: LogHistory) -> None:
    for final in (*finals, history.readings[0].records):
        final[1] = replace(final[1], epoch=2)


def deposed(finals: list[list[Seen]], history: LogHistory) -> None:
    history.appends[0].begun_in = 2


def two_leaders(finals: list[list[Seen]], history: LogHistory) -> None:
    for final in (*finals, history.readings[0].records):
        final[3] = replace(final[3], epoch=1)
    history.appends[2].epoch = 1


def out_of_nowhere(finals: list[list[Seen]], history: LogHistory) -> None:
    for final in (*finals, history.readings[0].records):
        final[1] = replace(final[1], txid=5)


def misplaced(finals: list[list[Seen]], history: LogHistory) -> None:
    history.appends[0].expected_offset = 7


def told_wrong(finals: list[list[Seen]], history: LogHistory) -> None:
    history.appends[0].offset = 1


def misnumbered(finals: list[list[Seen]], history: LogHistory) -> None:
    history.appends[0].txid = 3


def confirmed_behind_the_seal(finals: list[list[Seen]], history: LogHistory) -> None:
    history.appends[0].is_behind_seal = True


def there_behind_the_seal(finals: list[list[Seen]], history: LogHistory) -> None:
    history.appends[0].is_behind_seal = True
    history.appends[0].outcome, history.appends[0].positions = Outcome.UNKNOWN, ()


def test_a_healthy_log_passes() -> None:
    check_log(*log_scene())


@pytest.mark.parametrize(
    ("plant", "name"),
    [
        (lose_last, "lost write"),
        (both(twice), "duplicate"),
        (
            followers(lambda seen: seen.__setitem__(1, replace(seen[1], payload=b"z"))),
            "inconsistent position",
        ),
        (
            followers(lambda seen: seen.append(Seen(Position(2, 1, 0), 4, 2, b"never"))),
            "aborted read",
        ),
        (followers(lambda seen: seen.append(Seen(Position(2, 1, 0), 4, 2, b"x"))), "aborted read"),
        (both(lambda seen: seen.pop(2)), "phantom"),
        (followers(lambda seen: seen.pop(1)), "skip"),
        (followers(lambda seen: seen.append(seen[0])), "non-monotonic read"),
        (out_of_order, "send order"),
        (spread, "send order"),
        (stale, "real time"),
        (interleaved, "handoff"),
        (two_leaders, "handoff: .* and so were one's"),
        (deposed, "C5 a deposed leader confirms nothing"),
        (lambda finals, history: finals[1].pop() and None, "agreement"),
        (out_of_nowhere, "transactions"),
        (misnumbered, "transactions"),
        (misplaced, "conditional append"),
        (told_wrong, "told offset"),
        (confirmed_behind_the_seal, "seal"),
        (there_behind_the_seal, "seal"),
    ],
)
def test_log_checkers_catch(plant: Plant, name: str) -> None:
    finals, history = log_scene()
    plant(finals, history)
    with pytest.raises(Violation, match=name):
        check_log(finals, history)


def test_a_trim_that_was_told_is_no_skip() -> None:
    finals, history = log_scene()
    reading = history.readings[0]
    del reading.records[1]
    reading.gap_before = [1]
    check_log(finals, history)


def test_copies_on_a_lost_disk_need_not_be_there() -> None:
    final, history = healthy()
    lose_copies(final, history)
    final.lost = frozenset(final.metadata.last_fragment.bookies)
    check_ledger(final, history)
