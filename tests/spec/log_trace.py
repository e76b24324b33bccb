"""Is what happens to logs and their ledgers a behaviour of `spec/Log.tla`?

A `LogJudge` is told of each step where it takes effect: what a manifest is now, what the record of
a ledger says, what bookies hold, what a writer confirms, what a leader answers. Each step must be
an action of the specification whose guard holds. The first that is not is the refusal, and the
judge stops there.

    a manifest changes      Install, Succeed, Seal, Ingest, Trim, DeleteDoomed, Retire, EraseRecord
    a ledger's record       MakeLedger, MakeSpare, MakePart, Recover, Mend, Close, Sweep, DropSpare
    adds come, and are held Send, after Switch
    LAC moves, an answer    Ack

One change may be several actions in a row: a takeover seals what it recovered, and a segment that
was sealed empty or before the trim point leaves at once. Files of cold segments, jobs and settings
are no part of the specification: a change of them alone is not a step.

Not here: how the steps are gathered (tests/sim/log_conformance.py).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final, NamedTuple

from quire.log.manifest.codec import OPEN_SEGMENTS_MAX
from quire.log.manifest.manifest import LogManifest, Segment
from quire.log.records.position import Position
from quire.metastore.cluster import EPOCH_BITS, epoch_floor
from tests.spec.events import Event, Kind

NOTHING: Final = -1


STEPS: Final = frozenset({Kind.ADDED, Kind.CONFIRMED, Kind.CLOSED, Kind.DELETED})
"""What happens to a ledger that is a step of its log."""


class Label(NamedTuple):
    """What a ledger was created for."""

    log_id: str
    epoch: int
    segment: int


class RefusedStepError(Exception):
    """The guard of an action does not hold."""


@dataclass(slots=True)
class _Ledger:
    """What is known of a ledger of a log."""

    label: Label | None
    end: int | None = None
    is_there: bool = True
    is_listed: bool = False
    """A manifest lists it, or listed it once."""
    is_begun: bool = False
    """Something of its writer has come to a bookie."""
    held: int = NOTHING
    """The highest entry of its writer that a bookie holds."""
    confirmed: int = NOTHING

    @property
    def is_decided(self) -> bool:
        """Whether nothing that was sent to it may still be confirmed or lost."""
        return self.end is not None or self.held <= self.confirmed


def _need(condition: bool, reason: str) -> None:
    if not condition:
        raise RefusedStepError(reason)


class LogJudge:
    """See the module. Logs are told apart by the path of their record."""

    def __init__(self) -> None:
        self.refusal: str | None = None
        self._is_over = False
        self._ledgers: dict[int, _Ledger] = {}
        self._manifests: dict[str, LogManifest] = {}
        self._terms: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        """The ledgers that one epoch of a log wrote, in the order of their segments."""
        self._placed: dict[tuple[str, int], int] = {}
        """The ledger of each segment that was ever listed."""

    @property
    def _stops(self) -> bool:
        return self._is_over or self.refusal is not None

    def end(self) -> None:
        """Judge nothing that happens from now on."""
        self._is_over = True

    # -- what happens ------------------------------------------------------------------------------

    def created(self, ledger: int, label: Label | None) -> None:
        """MakeLedger, MakeSpare, MakePart: a ledger of a log has a record."""
        self._ledgers[ledger] = _Ledger(label)

    def knows(self, ledger: int) -> bool:
        return ledger in self._ledgers

    def told(self, ledger: int, event: Event) -> None:
        """Something happened to a ledger."""
        known = self._ledgers.get(ledger)
        if known is not None and not self._stops and event.kind in STEPS:
            try:
                self._told(ledger, known, event)
            except RefusedStepError as error:
                self.refusal = f"{event} of ledger {ledger}, made for {known.label}: {error}"

    def came(self, ledger: int) -> None:
        """Send: an add of a ledger's writer has come to a bookie, whatever becomes of it."""
        known = self._ledgers.get(ledger)
        if known is None or known.label is None or known.is_begun or self._stops:
            return
        try:
            self._began(ledger, known, known.label)
        except RefusedStepError as error:
            self.refusal = f"an add of ledger {ledger}, made for {known.label}: {error}"

    def changed(self, path: str, after: LogManifest | None) -> None:
        """The manifest of a log is another one, or gone."""
        before = self._manifests.get(path)
        if not self._stops:
            try:
                self._changed(before, after)
            except RefusedStepError as error:
                self.refusal = f"{path} became {_short(after)} after {_short(before)}: {error}"
        if after is None:
            self._manifests.pop(path, None)
        else:
            self._manifests[path] = after

    def answered(self, log_id: str, position: Position) -> None:
        """A leader, or a job, has been told that a log has a record at a position."""
        if self._stops:
            return
        ledger = self._placed.get((log_id, position.segment))
        known = None if ledger is None else self._ledgers.get(ledger)
        if known is None:
            self.refusal = f"Ack {position} of log {log_id}: no manifest listed its segment"
        elif position.entry > max(known.confirmed, NOTHING if known.end is None else known.end):
            text = f"ledger {ledger} is confirmed to {known.confirmed}"
            self.refusal = f"Ack {position} of log {log_id}: {text}"

    # -- ledgers -----------------------------------------------------------------------------------

    def _told(self, ledger: int, known: _Ledger, event: Event) -> None:
        match event.kind:
            case Kind.CLOSED:
                _need(known.end in (None, event.last), f"Close: it ended at {known.end}")
                known.end = event.last
            case Kind.DELETED:
                self._deleted(ledger, known)
            case Kind.ADDED if known.label is not None:
                self._sent(ledger, known, known.label, event)
            case Kind.CONFIRMED:
                known.confirmed = max(known.confirmed, event.last)
                is_in_it = known.end is None or event.last <= known.end
                _need(is_in_it, f"H8: acknowledged, and the ledger ended at {known.end}")

    def _deleted(self, ledger: int, known: _Ledger) -> None:
        listing = [each.name for each in self._manifests.values() if each.lists(ledger)]
        _need(not listing, f"C1: deleted while it is listed by {listing}")
        was_written = known.held != NOTHING
        _need(known.end is not None or not was_written, "H8: deleted, and it was not closed")
        known.is_there = False
        if known.end is None:
            known.end = NOTHING

    def _began(self, ledger: int, known: _Ledger, label: Label) -> None:
        """Send, the first one: after Switch, which waits until all before it is decided."""
        _need(known.is_listed, "C1: written before a manifest lists it")
        known.is_begun = True
        term = self._terms[label.log_id, label.epoch]
        for earlier in (self._ledgers[each] for each in term[: term.index(ledger)]):
            text = f"{earlier.held} of the segment before is held, {earlier.confirmed} confirmed"
            _need(earlier.is_decided, f"C6: {text}")

    def _sent(self, ledger: int, known: _Ledger, label: Label, event: Event) -> None:
        if not known.is_begun:
            self._began(ledger, known, label)
        if event.last <= known.held:
            return
        term = self._terms[label.log_id, label.epoch]
        is_left = any(self._ledgers[each].is_begun for each in term[term.index(ledger) + 1 :])
        is_decided = known.end is not None or event.last <= known.confirmed
        _need(not is_left or is_decided, "C6: the next segment is written already")
        known.held = event.last

    # -- manifests ---------------------------------------------------------------------------------

    def _changed(self, before: LogManifest | None, after: LogManifest | None) -> None:
        if after is None:
            if before is not None:
                self._erased(before)
            return
        if before is None:
            self._entered(LogManifest(after.name, after.log_id, after.created_ms), after)
            return
        _need(after.log_id == before.log_id, "Install: another log takes its place")
        step = after.epoch - before.epoch
        is_first = after.epoch == epoch_floor(after.epoch >> EPOCH_BITS) + 1  # of an incarnation
        _need(step in (0, 1) or (step > 1 and is_first), "C4: epochs go up by one")
        _need(not before.retired or after.retired, "Retire: a retired log is led again")
        _need(not before.sealed or after.sealed, "Leave: a log that was sealed is open again")
        _need(keeps_trims(before, after), "Trim: the trim point went back")
        self._compare(before, after)
        if step:
            left_open = {each.number for each in before.open_segments}
            left_open &= {each.number for each in after.open_segments}
            _need(not left_open, f"Recover: a takeover leaves {left_open} open")
        for ledger in before.doomed:
            is_known = ledger in after.doomed or not self._is_there(ledger)
            _need(is_known, f"DeleteDoomed: {ledger} is forgotten, not deleted")

    def _compare(self, before: LogManifest, after: LogManifest) -> None:
        """Each segment of before is kept, sealed, or gone; what is new was appended."""
        news, kept = {each.number: each for each in after.segments}, 0
        for old in before.segments:
            if (new := news.get(old.number)) is None:
                self._left(old, after)
                continue
            kept += 1
            if new.end != old.end or (new.ledger, new.epoch) != (old.ledger, old.epoch):
                self._kept(old, new)
        if kept < len(news):
            self._entered(before, after)

    def _erased(self, manifest: LogManifest) -> None:
        _need(manifest.retired, "EraseRecord: the log was not retired")
        left = [each for each in manifest.doomed if self._is_there(each)]
        _need(not left, f"D2: ledgers {left} outlive their log")

    def _is_there(self, ledger: int) -> bool:
        known = self._ledgers.get(ledger)
        return known is not None and known.is_there

    def _kept(self, old: Segment, new: Segment) -> None:
        """Seal, or a change that is not a step: a file of a cold segment."""
        number, known = old.number, self._ledgers.get(old.ledger)
        is_same = (new.ledger, new.epoch) == (old.ledger, old.epoch)
        _need(is_same, f"C4: segment {number} is another one")
        if old.end is not None:
            _need(new.end == old.end, f"C3: the end of segment {number} moved")
        elif new.end is not None and known is not None:
            text = f"C3: segment {number} is sealed at {new.end.last_entry}"
            _need(known.end == new.end.last_entry, f"{text}, its ledger ends at {known.end}")

    def _left(self, old: Segment, after: LogManifest) -> None:
        """Trim, Retire, or Seal of a segment in which nothing was written."""
        number, known = old.number, self._ledgers.get(old.ledger)
        end = known.end if known is not None and old.end is None else old.last_entry
        if end is None:
            raise RefusedStepError(f"C3: segment {number} left, and its ledger is open")
        if not (after.retired or end == NOTHING):
            place = old.end_position or Position(number, end, 0)
            _need(place <= after.trimmed_to, f"KEPT: segment {number} was not trimmed")
            kept = [each.number for each in after.segments if each.number < number]
            _need(not kept, f"Trim: {kept} are before segment {number}, which left")
        if old.is_hot:
            is_known = old.ledger in after.doomed or not self._is_there(old.ledger)
            _need(is_known, f"DeleteDoomed: ledger {old.ledger} left, and nothing deletes it")

    def _entered(self, before: LogManifest, after: LogManifest) -> None:
        olds = {each.number for each in before.segments}
        fresh = [each for each in after.segments if each.number not in olds]
        known = {*(each.ledger for each in before.segments), *before.doomed} if fresh else set()
        for new in fresh:
            _need(new.number >= before.next_segment, f"C4: segment {new.number} came back")
            _need(not before.sealed, "Succeed: the log is sealed")
            _need(new.ledger not in known, f"IngestsOnce: ledger {new.ledger} was in the log")
            _need(self._is_there(new.ledger), f"C1: ledger {new.ledger} has no record")
            self._place(new, after)
        open_ones = after.open_segments
        is_suffix = after.segments[len(after.segments) - len(open_ones) :] == open_ones
        _need(len(open_ones) <= OPEN_SEGMENTS_MAX and is_suffix, "C3: too many open segments")

    def _place(self, new: Segment, after: LogManifest) -> None:
        ledger = self._ledgers[new.ledger]
        self._placed[after.log_id, new.number] = new.ledger
        if new.ingested:
            _need(new.epoch == after.epoch, "Ingest: a part of another epoch")
            is_closed = new.end is not None and ledger.end == new.end.last_entry
            _need(is_closed, f"C3: the part ends at {ledger.end}")
            return
        wanted = Label(after.log_id, new.epoch, new.number)
        _need(ledger.label == wanted, f"C4: {wanted} is ledger {new.ledger} for {ledger.label}")
        _need(new.epoch == after.epoch, "C4: a segment of another epoch")
        if not ledger.is_listed:
            ledger.is_listed = True
            self._terms[after.log_id, new.epoch].append(new.ledger)


def _short(manifest: LogManifest | None) -> str:
    if manifest is None:
        return "none"
    rows = [f"{each.number}:{each.ledger}@{each.last_entry}" for each in manifest.segments]
    state = " retired" if manifest.retired else ""
    head = f"{manifest.log_id[:8]} epoch {manifest.epoch} trimmed to {manifest.trimmed_to}"
    return f"[{head}{state} {' '.join(rows)} doomed {[*manifest.doomed]}]"


def keeps_trims(before: LogManifest, after: LogManifest) -> bool:
    """Whether every record that was trimmed still is.

    A point at the start of a segment becomes the end of the last record before it when the segment
    of that record is sealed.
    """
    became_an_end = after.first_position >= before.trimmed_to and any(
        segment.end is None and segment.start < after.trimmed_to < before.trimmed_to
        for segment in before.segments
    )
    return after.trimmed_to >= before.trimmed_to or became_an_end
