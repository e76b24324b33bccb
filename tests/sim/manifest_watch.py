"""Watching a log's manifest: every change of it, and what leaders hold confirmed.

C1  a segment in which something is acknowledged is listed, and what is listed is not deleted
C3  at most two segments are open; the ledger of a sealed one is closed at the end that it names
C4  epochs, segment numbers and the trim point never fall; a sealed segment's end never changes;
    what is appended was made for that segment by the epoch that lists it
C5  nothing is acknowledged beyond the end at which a newer leader sealed a segment
"""

from __future__ import annotations

from collections.abc import Callable

from quire.entry import LedgerId
from quire.errors import CorruptRecordError
from quire.ledger.metadata import LedgerMetadata
from quire.log.maintenance.orphans import Labels
from quire.log.manifest import capacity
from quire.log.manifest.manifest import LogManifest, Segment
from quire.log.records.position import Position
from quire.metastore.layout import LEDGERS, LOGS
from tests.sim.history import Violation, require
from tests.sim.page_watch import PageWatch
from tests.spec.log_trace import keeps_trims

FindLedger = Callable[[LedgerId], LedgerMetadata | None]


def _unheard(of: str, what: object) -> None:
    return None


class ManifestWatch:
    """See the module. `find` returns the record of a ledger, None of one that is not there."""

    def __init__(self, report: Callable[[Violation], None], find: FindLedger) -> None:
        self._report = report
        self._find = find
        self.current: dict[str, LogManifest] = {}
        self.pages = PageWatch(report)
        self._deleted: set[LedgerId] = set()
        self.takeovers = 0
        self.rolls = 0
        self.migrations = 0
        self.limits_space = True
        """Whether those who roll are leaders, which look at the space before."""
        self.on_change: Callable[[str, LogManifest | None], None] = _unheard
        """Told of every manifest before it is checked, with the path of its record."""
        self.on_confirm: Callable[[str, Position], None] = _unheard
        """Told of every position at which a leader holds a record confirmed."""

    def changed(self, path: str, value: bytes | None, version: int) -> None:
        """Listener of the tree."""
        self.pages.changed(path, value)
        if value is None and path.startswith(LEDGERS + "/") and path.count("/") >= 4:
            self._check_deletion(int(path.rpartition("/")[2]))
        if not path.startswith(LOGS + "/") or value == b"":
            return
        try:
            after = None if value is None else self.pages.read(path, value)
            if after is None:
                self.pages.forget(path)
            self.on_change(path, after)
            if after is not None:
                self._check(after)
        except CorruptRecordError as error:
            self._report(Violation("C3 the manifest is sound", str(error)))
        except Violation as violation:
            self._report(violation)

    def flat(self, manifest: LogManifest) -> LogManifest:
        """Return a manifest that was written as one without pages."""
        return self.pages.flat(manifest)

    def _check_deletion(self, ledger: int) -> None:
        self._deleted.add(ledger)
        for name in sorted(self.current):
            if self.current[name].lists(ledger):
                text = f"ledger {ledger} was deleted, {name} lists it"
                self._report(Violation("C1 listed ledgers exist", text))

    def _check(self, after: LogManifest) -> None:
        hot = [each.ledger for each in after.segments if each.is_hot]
        gone = [ledger for ledger in hot if ledger in self._deleted]
        before = self.current.get(after.name)
        if gone and (before is None or not any(map(before.lists, gone))):
            text = f"{after.name} lists {gone}, deleted before"
            self._report(Violation("C1 listed ledgers exist", text))
        if before is not None and before.log_id == after.log_id:
            check_manifests(before, after)
            self.migrations += after.is_paged > before.is_paged
            self._check_sealed(before, after)
            self._check_new(before, after)
            if self.limits_space:
                check_space(before, after)
            self.takeovers += after.epoch > before.epoch
            self.rolls += after.epoch == before.epoch and after.next_segment > before.next_segment
        self.current[after.name] = after

    def _check_sealed(self, before: LogManifest, after: LogManifest) -> None:
        """An open segment that is sealed, or found empty and dropped, has a closed ledger."""
        left = {segment.number: segment for segment in after.segments}
        for old in before.open_segments:
            metadata, new = self._find(old.ledger), left.get(old.number)
            if metadata is None or (new is not None and new.end is None):
                continue
            named = metadata.last_entry if new is None or new.end is None else new.end.last_entry
            require(
                metadata.is_closed and metadata.last_entry == named,
                "C3 the ledger of a sealed segment is closed",
                f"segment {old} became {new}; its ledger is {metadata.state}, "
                f"its last entry {metadata.last_entry}",
            )

    def _check_new(self, before: LogManifest, after: LogManifest) -> None:
        """A segment that was appended is of the epoch and the number its ledger was made for."""
        fresh = [each for each in after.segments if each.number >= before.next_segment]
        for segment in fresh:
            metadata = self._find(segment.ledger)
            labels = None if metadata is None else Labels.of(metadata.custom_metadata)
            require(
                labels is None or _is_for(labels, segment, after.log_id),
                "C4 a segment is of its leader's epoch",
                f"segment {segment} is a ledger made for {labels}",
            )

    def confirm(self, log: str, position: Position) -> None:
        """A leader holds a record confirmed."""
        manifest = self.current[log]
        self.on_confirm(manifest.log_id, position)
        segment = manifest.segment_from(position.segment)
        listed = segment is not None and segment.number == position.segment
        trimmed = position < manifest.trimmed_to
        end = segment.end_position if segment is not None and listed else None
        if not (listed or trimmed):
            self._report(
                Violation("C1 written segments are listed", f"{position} is in no segment of {log}")
            )
        elif end is not None and not trimmed and position >= end:
            self._report(
                Violation("C5 a deposed leader confirms nothing", f"{position} is beyond {end}")
            )


def _is_for(labels: Labels, segment: Segment, log_id: str) -> bool:
    made_for = (labels.log_id, labels.epoch, labels.segment)
    return made_for == (log_id, segment.epoch, segment.number)


SLACK_BYTES = 200
"""What a seal or a setting may add between a look at the manifest and the roll."""


def check_space(before: LogManifest, after: LogManifest) -> None:
    """Raise `Violation` if a leader rolls a log whose manifest may not grow.

    A segment that replaces a broken one seals it in the same change, and is no roll.
    """
    is_roll = (
        after.epoch == before.epoch
        and after.next_segment > before.next_segment
        and set(before.open_segments) <= set(after.segments)
    )
    size = capacity.manifest_bytes(before)
    require(
        not is_roll or after.is_paged or size <= capacity.GROWTH_BYTES_MAX + SLACK_BYTES,
        "a full manifest is not rolled",
        f"manifest of {size} bytes, which may grow up to {capacity.GROWTH_BYTES_MAX}, got "
        f"segment {after.tail}",
    )


def check_manifests(before: LogManifest, after: LogManifest) -> None:
    """Raise `Violation` unless a manifest may change like this."""
    name = "C4 the manifest goes forward"
    require(after.epoch >= before.epoch, name, f"epoch {before.epoch} became {after.epoch}")
    require(after.next_segment >= before.next_segment, name, "segment numbers were taken back")
    require(keeps_trims(before, after), name, "the trim point went back")
    require(after.is_paged >= before.is_paged, name, "pages were given up")
    require(after.tiers[: len(before.tiers)] == before.tiers, name, "tiers left their places")
    require(after.last_txid >= before.last_txid, name, "the last txid went back")
    olds = {segment.number: segment for segment in before.segments}
    for segment in after.segments:
        old = olds.get(segment.number)
        if old is None:
            require(
                segment.number >= before.next_segment, name, f"segment {segment.number} came back"
            )
            continue
        require(
            (old.ledger, old.epoch) == (segment.ledger, segment.epoch)
            and (old.end is None or old.end == segment.end),
            name,
            f"segment {old} became {segment}",
        )
    kept = {segment.number for segment in after.segments}
    for old in before.segments:
        lost = old.number not in kept and old.end is not None and old.end.records > 0
        require(
            not lost or (old.end_position or after.trimmed_to) <= after.trimmed_to,
            name,
            f"{old} left the log without being trimmed",
        )
