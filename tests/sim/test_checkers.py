"""Every checker catches the violation it is there for, and passes a history without one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from quire.bookie import LedgerTail
from quire.entry import DigestKind, Sealer
from quire.errors import NoSuchEntryError
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState
from quire.ledger.quorum import Replication
from quire.log.manifest import LogManifest, Segment, SegmentEnd
from quire.log.position import Position
from quire.metastore.layout import ledger_path, log_path
from quire.run import pack_run
from tests.sim.checkers import FinalLedger, check_ledger
from tests.sim.history import End, LedgerHistory, LogHistory, Outcome, Seen, Violation
from tests.sim.log_checkers import ManifestWatch, check_log
from tests.sim.loop import new_loop
from tests.sim.process import Incarnation
from tests.sim.watch import BookieWatch, MetadataWatch

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


# -- bookies ---------------------------------------------------------------------------------------

SEALER = Sealer(7, DigestKind.CRC32C, b"")
KEY = SEALER.access_key


def run_of(*entries: int) -> bytes:
    return pack_run([SEALER.seal(entry, -1, 1, b"x") for entry in entries])


class Door:
    """A bookie's door as the watch sees it."""

    def __init__(self) -> None:
        self.found: list[Violation] = []
        self.watch = BookieWatch(self.found.append)
        self.loop = new_loop(random.Random("0"))
        self.life = Incarnation(self.loop, "b0", 0)

    def ask(self, method: str, outcome: object, **args: object) -> None:
        self.watch.end(self.watch.begin("b0", self.life, method, {"ledger": 7, **args}), outcome)

    def add(self, *entries: int, key: bytes = KEY, recovery: bool = False) -> None:
        self.ask("add", None, key=key, run=run_of(*entries), recovery=recovery)

    def fence(self) -> None:
        self.ask("read_tail", LedgerTail(fenced=True), fence_key=KEY)

    def names(self) -> list[str]:
        return [violation.name[:2] for violation in self.found]


def test_an_honest_bookie_passes() -> None:
    door = Door()
    door.add(0, 1)
    door.ask("read", run_of(0, 1), first=0, last=5, fence_key=None)
    door.ask("read", NoSuchEntryError(7, 5), first=5, last=5, fence_key=KEY)
    door.add(2, recovery=True)
    frame = SEALER.seal(2, -1, 1, b"x")
    door.ask("read_tail", LedgerTail(frame, hint=1, fenced=True), fence_key=None)
    assert door.names() == []


def test_bookie_watch_catches() -> None:
    door = Door()
    door.fence()
    door.add(0)
    door.ask("read_tail", LedgerTail(run_of(0)[4:], fenced=False), fence_key=None)
    assert door.names() == ["B6", "B1"]
    door = Door()
    door.add(0, 1, 2)
    door.ask("read", NoSuchEntryError(7, 1), first=1, last=1, fence_key=None)
    door.ask("read", run_of(0, 2), first=0, last=2, fence_key=None)
    door.ask("read_tail", LedgerTail(), fence_key=None)
    assert door.names() == ["B3", "B3", "B3"]
    door = Door()
    door.ask("wait_tail", LedgerTail(hint=5), above=0, timeout=1)
    door.ask("wait_tail", LedgerTail(hint=4), above=0, timeout=1)
    door.add(0)
    door.add(1, key=b"other")
    assert door.names() == ["B4", "B5"]


def test_a_fence_that_is_answered_while_an_add_is_under_way_is_no_violation() -> None:
    door = Door()
    args = {"ledger": 7, "key": KEY, "run": run_of(0), "recovery": False}
    token = door.watch.begin("b0", door.life, "add", args)
    door.fence()
    door.watch.end(token, None)
    assert door.names() == []


# -- metadata --------------------------------------------------------------------------------------


def steps(*values: LedgerMetadata, confirmed: int = -1) -> list[str]:
    door = Door()
    watch = MetadataWatch(door.watch, door.found.append)
    for entry in range(confirmed + 1):
        for bookie in BOOKIES:
            args = {"ledger": 7, "key": KEY, "run": run_of(entry), "recovery": False}
            door.watch.end(door.watch.begin(bookie, door.life, "add", args), None)
    for version, value in enumerate(values):
        watch.changed(ledger_path(7), value.encode(), version)
        if version == 0:
            for entry in range(confirmed + 1):
                watch.confirm(7, entry)
    return [violation.name[:2] for violation in door.found]


def test_metadata_watch_catches() -> None:
    recovering = OPEN.with_state(LedgerState.IN_RECOVERY)
    other = ("b3", "b4", "b5")
    assert steps(OPEN, recovering, recovering.closed(4, 9), confirmed=4) == []
    assert steps(OPEN, OPEN.with_fragment(Fragment(5, other)), confirmed=4) == []
    assert steps(recovering, OPEN) == ["M1"]
    assert steps(OPEN.closed(4, 9), OPEN.closed(3, 9)) == ["M1"]
    assert steps(OPEN, recovering, recovering.closed(3, 9), confirmed=4) == ["L1"]
    split = OPEN.with_fragment(Fragment(5, other))
    assert steps(split, replace(split, fragments=(Fragment(0, BOOKIES),))) == ["L5"]
    assert steps(OPEN, OPEN.with_fragment(Fragment(3, other)), confirmed=4)[:1] == ["L3"]


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
    history.confirm(history.offer("one", 1, (b"a",)), (Position(1, 0, 0),))
    history.offer("one", 1, (b"b", b"c"))
    history.confirm(history.offer("two", 2, (b"d",)), (Position(2, 0, 0),))
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
    history.confirm(late, (Position(1, 1, 0),))
    history.appends.append(history.appends.pop(0))


def spread(finals: list[list[Seen]], history: LogHistory) -> None:
    history.appends[0].payloads = (b"a", b"b")
    history.appends[0].positions = (Position(1, 0, 0), Position(1, 1, 0))


def stale(finals: list[list[Seen]], history: LogHistory) -> None:
    late = history.offer("one", 1, (b"b", b"c"))
    history.confirm(late, (Position(1, 1, 0), Position(1, 1, 1)))


def interleaved(finals: list[list[Seen]], history: LogHistory) -> None:
    for final in (*finals, history.readings[0].records):
        final[1] = replace(final[1], epoch=2)


def out_of_nowhere(finals: list[list[Seen]], history: LogHistory) -> None:
    for final in (*finals, history.readings[0].records):
        final[1] = replace(final[1], transaction=5)


def misplaced(finals: list[list[Seen]], history: LogHistory) -> None:
    history.appends[0].expected_offset = 7


def misnumbered(finals: list[list[Seen]], history: LogHistory) -> None:
    history.appends[0].transaction = 3


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
        (lambda finals, history: finals[1].pop() and None, "agreement"),
        (out_of_nowhere, "transactions"),
        (misnumbered, "transactions"),
        (misplaced, "conditional append"),
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


def test_manifest_watch_catches() -> None:
    found: list[Violation] = []
    watch = ManifestWatch(found.append)
    first = LogManifest("log", "id", 0).take_over({}, 7, 0)
    end = SegmentEnd(1, 1, 2, 10, 0)
    second = first.take_over({1: end}, 8, 0)

    def step(*manifests: LogManifest) -> list[str]:
        found.clear()
        watch.current.clear()
        for manifest in manifests:
            watch.changed(log_path("log"), manifest.encode(), 0)
        return [violation.name[:2] for violation in found]

    assert step(first, second) == []
    watch.confirm("log", Position(1, 1, 0))
    watch.confirm("log", Position(2, 5, 0))
    assert not found
    watch.confirm("log", Position(1, 2, 0))
    watch.confirm("log", Position(3, 0, 0))
    assert [violation.name[:2] for violation in found] == ["C5", "C1"]
    assert step(second, first) == ["C4"]
    other = Segment(1, 7, 1, 0, 0, SegmentEnd(0, 1, 1, 5, 0))
    changed = replace(second, segments=(other, replace(second.segments[1], first_offset=1)))
    assert step(second, changed) == ["C4"]
    assert step(second, replace(second, segments=second.segments[1:], first_offset=2)) == ["C4"]


def test_manifest_watch_catches_the_deletion_of_a_listed_ledger() -> None:
    found: list[Violation] = []
    watch = ManifestWatch(found.append)
    manifest = LogManifest("log", "id", 0).take_over({}, 7, 0)
    watch.changed(log_path("log"), manifest.encode(), 1)
    watch.changed(ledger_path(8), None, 2)
    assert not found
    watch.changed(ledger_path(7), None, 3)
    assert [violation.name for violation in found] == ["C1 listed ledgers exist"]


def test_copies_on_a_lost_disk_need_not_be_there() -> None:
    final, history = healthy()
    lose_copies(final, history)
    final.lost = frozenset(final.metadata.last_fragment.bookies)
    check_ledger(final, history)
