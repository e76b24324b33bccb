"""Those who watch servers and records catch what they are there for, and let the rest pass."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from quire.bookie import LedgerTail
from quire.election.ballot import Term, encode_term
from quire.election.election import Leader
from quire.entry import DigestKind, LedgerId, Sealer
from quire.errors import LedgerFencedError, NoSuchEntryError, ReadOnlyBookieError
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState
from quire.ledger.quorum import Replication
from quire.log.manifest.manifest import LogManifest, Segment, SegmentEnd
from quire.log.manifest.recovery import ledger_labels
from quire.log.records.position import Position
from quire.metastore.layout import (
    election_candidates_path,
    election_epoch_path,
    ledger_path,
    log_path,
)
from quire.run import pack_run
from quire.testing.sim.loop import new_loop
from quire.testing.sim.process import Incarnation
from tests.sim.election_watch import ElectionWatch
from tests.sim.history import Violation
from tests.sim.manifest_watch import ManifestWatch
from tests.sim.watch import BookieWatch, MetadataWatch

BOOKIES = ("b0", "b1", "b2")
OPEN = LedgerMetadata(7, Replication(3, 3, 2), DigestKind.CRC32C, "k", (Fragment(0, BOOKIES),))

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


def test_a_bookie_off_duty_takes_no_entries_and_denies_nothing() -> None:
    door = Door()
    off_duty = ReadOnlyBookieError("b0", "an operator's wish is in force: away")
    door.watch.has_left = lambda bookie, ledger: True
    door.ask("add", off_duty, key=KEY, run=run_of(0), recovery=False)
    door.add(1, recovery=True)
    assert door.names() == []
    door.add(2)
    assert door.names() == ["B1"]
    assert "takes no entries" in door.found[-1].name
    for method in ("read", "read_tail", "list_entries"):
        door.ask(method, off_duty, first=0, last=5, fence_key=KEY)
        assert "denies nothing" in door.found[-1].name
    door.ask("add", off_duty, key=KEY, run=run_of(3), recovery=True)
    assert len(door.found) == 5


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
    assert steps(recovering, recovering.with_fragment(Fragment(5, other))) == ["W5"]
    assert steps(recovering, recovering.with_fragment(Fragment(0, other))) == ["W5"]
    assert steps(OPEN, recovering.with_fragment(Fragment(0, other))) == ["W5"]
    assert steps(recovering, recovering.with_fragment(Fragment(5, other)).closed(5, 9)) == []


def test_an_add_after_a_fence_is_noticed_when_the_ledger_is_deleted_as_well() -> None:
    door = Door()
    door.fence()
    door.watch.forget(7)
    door.add(1, recovery=True)
    door.ask("add", LedgerFencedError(7), key=KEY, run=run_of(1), recovery=False)
    assert door.names() == []
    door.add(1)
    door.add(1, key=b"other")
    assert door.names() == ["H8", "H8"]
    unfenced = Door()
    unfenced.add(0)
    unfenced.watch.forget(7)
    unfenced.add(1)
    assert unfenced.names() == [], "its writer was not fenced here"


def test_an_ack_of_a_ledger_that_was_closed_and_deleted_is_noticed() -> None:
    door = Door()
    watch = MetadataWatch(door.watch, door.found.append)
    watch.changed(ledger_path(7), OPEN.encode(), 0)
    watch.changed(ledger_path(7), OPEN.closed(4, 9).encode(), 1)
    watch.changed(ledger_path(7), None, 2)
    watch.confirm(7, 4)
    assert door.names() == []
    watch.confirm(7, 5)
    assert door.names() == ["H8"]


END = SegmentEnd(1, 1, 2, 10, 0)
FIRST = LogManifest("log", "id", 0).take_over({}, 7, 0)
SECOND = FIRST.take_over({1: END}, 8, 0)


class Desk:
    """A log's manifest as its watch sees it, beside the records of its ledgers."""

    def __init__(self) -> None:
        self.found: list[Violation] = []
        self.ledgers: dict[LedgerId, LedgerMetadata] = {}
        self.watch = ManifestWatch(self.found.append, self.ledgers.get)

    def put(self, *manifests: LogManifest) -> list[str]:
        self.found.clear()
        self.watch.current.clear()
        for manifest in manifests:
            self.watch.changed(log_path("log"), manifest.encode(), 0)
        return self.names()

    def names(self) -> list[str]:
        return [violation.name[:2] for violation in self.found]


def test_manifest_watch_catches() -> None:
    desk = Desk()
    assert desk.put(FIRST, SECOND) == []
    desk.watch.confirm("log", Position(1, 1, 0))
    desk.watch.confirm("log", Position(2, 5, 0))
    assert not desk.found
    desk.watch.confirm("log", Position(1, 2, 0))
    desk.watch.confirm("log", Position(3, 0, 0))
    assert desk.names() == ["C5", "C1"]
    assert desk.put(SECOND, FIRST) == ["C4"]
    other = Segment(1, 7, 1, 0, 0, SegmentEnd(0, 1, 1, 5, 0))
    changed = replace(SECOND, rows=(other, replace(SECOND.segments[1], first_offset=1)))
    assert desk.put(SECOND, changed) == ["C4"]
    assert desk.put(SECOND, replace(SECOND, rows=SECOND.segments[1:], first_offset=2)) == ["C4"]


def test_manifest_watch_catches_the_deletion_of_a_listed_ledger() -> None:
    desk = Desk()
    desk.put(FIRST)
    desk.watch.changed(ledger_path(8), None, 2)
    assert not desk.found
    desk.watch.changed(ledger_path(7), None, 3)
    assert [violation.name for violation in desk.found] == ["C1 listed ledgers exist"]


def test_manifest_watch_catches_a_sealed_segment_whose_ledger_can_still_grow() -> None:
    desk = Desk()
    dropped = FIRST.take_over({1: SegmentEnd(-1, 0, 0, 0, 0)}, 8, 0)
    for after, last in ((SECOND, END.last_entry), (dropped, -1)):
        desk.ledgers[7] = OPEN
        assert desk.put(FIRST, after) == ["C3"]
        desk.ledgers[7] = OPEN.with_state(LedgerState.IN_RECOVERY)
        assert desk.put(FIRST, after) == ["C3"]
        desk.ledgers[7] = OPEN.closed(last, 10)
        assert desk.put(FIRST, after) == []
    desk.ledgers[7] = OPEN.closed(END.last_entry + 1, 10)
    assert desk.put(FIRST, SECOND) == ["C3"]


def test_manifest_watch_catches_a_ledger_of_another_epoch_or_place() -> None:
    desk = Desk()
    labels = ledger_labels(FIRST, FIRST.epoch + 1)
    for custom_metadata, found in (
        (labels, []),
        ({}, []),
        ({**labels, "epoch": str(FIRST.epoch)}, ["C4"]),
        ({**labels, "segment": "7"}, ["C4"]),
        ({**labels, "log_id": "another"}, ["C4"]),
    ):
        desk.ledgers[8] = replace(OPEN, custom_metadata=custom_metadata)
        assert desk.put(FIRST, SECOND) == found


# -- elections -------------------------------------------------------------------------------------

ONE, TWO, THREE = "c-0000000001", "c-0000000002", "c-0000000003"


class Booth:
    """An election as its watch sees it."""

    def __init__(self, *standing: str) -> None:
        self.found: list[Violation] = []
        self.watch = ElectionWatch("e", self.found.append)
        for place in standing:
            self.stand(place)

    def stand(self, place: str, *, gone: bool = False) -> None:
        path = f"{election_candidates_path('e')}/{place}"
        self.watch.changed(path, None if gone else b"", 0)

    def elect(self, epoch: int, place: str, successor: str | None = None) -> list[str]:
        term = Term(epoch, f"at {place}", place, f"token {epoch} {place}", successor)
        self.watch.changed(election_epoch_path("e"), encode_term(term), 0)
        return [violation.name[:2] for violation in self.found]


def test_an_orderly_election_passes() -> None:
    booth = Booth(ONE, TWO, THREE)
    assert booth.elect(1, ONE) == []
    assert booth.elect(1, ONE, THREE) == []
    booth.stand(ONE, gone=True)
    assert booth.elect(2, THREE) == []
    booth.stand(THREE, gone=True)
    assert booth.elect(3, TWO) == []
    booth.watch.entered(3, "two")
    booth.watch.observed(Leader(f"at {THREE}", 2), 1)
    booth.watch.observed(Leader(f"at {TWO}", 3), 2)
    assert booth.watch.successions == 1


def test_a_candidate_may_lose_its_place_while_it_takes_office() -> None:
    booth = Booth(ONE, TWO)
    booth.stand(ONE, gone=True)
    assert booth.elect(1, ONE) == []
    assert booth.elect(2, TWO) == []


def test_election_watch_catches() -> None:
    booth = Booth(ONE, TWO, THREE)
    booth.elect(1, ONE)
    assert booth.elect(2, TWO) == ["E1"], "the last leader still stands"
    booth = Booth(ONE, TWO)
    booth.elect(1, ONE)
    booth.stand(ONE, gone=True)
    assert booth.elect(3, TWO) == ["E1"], "an epoch was left out"
    assert booth.elect(3, THREE) == ["E1", "E1"], "an epoch came twice"
    booth = Booth(ONE, TWO, THREE)
    booth.elect(1, ONE, THREE)
    booth.stand(ONE, gone=True)
    assert booth.elect(2, TWO) == ["E2"], "another one was named"
    booth = Booth(ONE, TWO, THREE)
    booth.elect(1, ONE)
    booth.stand(ONE, gone=True)
    assert booth.elect(2, THREE) == ["E2"], "another one was first"


def test_a_candidate_that_takes_office_after_its_session_is_found() -> None:
    booth = Booth()
    booth.watch.entered(1, "one", is_lost=False)
    with pytest.raises(Violation, match="two takes office at 2"):
        booth.watch.entered(2, "two", is_lost=True)


def test_election_watch_catches_what_leaders_and_observers_believe() -> None:
    booth = Booth(ONE)
    booth.elect(1, ONE)
    booth.watch.entered(1, "one")
    with pytest.raises(Violation, match="E3"):
        booth.watch.entered(1, "two")
    with pytest.raises(Violation, match="E1"):
        booth.watch.observed(Leader(f"at {ONE}", 1), 2)
    with pytest.raises(Violation, match="E1"):
        booth.watch.observed(Leader(f"at {TWO}", 1), 0)


def test_election_watch_catches_the_recovery_of_what_was_handed_over() -> None:
    booth = Booth()
    labels = ledger_labels(FIRST, FIRST.epoch)
    ledger = replace(OPEN, custom_metadata=labels).with_state(LedgerState.IN_RECOVERY)
    booth.watch.changed(ledger_path(7), ledger.encode(), 0)
    booth.watch.closed(FIRST.epoch, SECOND)
    assert not booth.found
    booth.watch.changed(ledger_path(7), ledger.encode(), 0)
    assert [violation.name[:2] for violation in booth.found] == ["E4"]
    with pytest.raises(Violation, match="E4"):
        booth.watch.closed(FIRST.epoch, FIRST)
