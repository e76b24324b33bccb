"""The segments that a leader works on: the one it writes, the one before it, the one after it.

    previous    writes have left it; its ledger is to be closed and its segment sealed
    current     takes the writes
    successor   in the manifest, empty, waiting for the writes to move
    spare       a ledger created ahead, which no manifest lists

A spare is used only for the segment and by the epoch in its labels, while all of its bookies are
registered and the log wants its replication. Otherwise it is deleted and another spare is
created. Once a change that lists the spare was attempted, the spare is deleted only after a
manifest was read that lacks it and that the change can no longer alter.

A roll is `install_successor`, then `switch` once nothing is in flight, then `seal_previous`. The
manifest lists at most two of them as open, because a successor is only installed after the previous
segment was sealed. Every step is one attempt that can be repeated, also after it was cancelled.
The caller decides when and how often.

Every method raises `DeposedError` once it reads a manifest of another leader. No tasks and no
timers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from quire.entry import LedgerId
from quire.errors import (
    ConflictError,
    CorruptEntryError,
    DeposedError,
    InvalidRequestError,
    LedgerClosedError,
    LedgerFencedError,
    NoSuchLedgerError,
    QuireError,
)
from quire.log.leader.accumulator import Parcel
from quire.log.manifest.ages import APART_MS, Reading
from quire.log.manifest.capacity import check_takeover
from quire.log.manifest.clocks import Clocks
from quire.log.manifest.live_options import LiveOptions
from quire.log.manifest.manifest import EMPTY, LogManifest, Segment, SegmentEnd
from quire.log.manifest.options import LogOptions
from quire.log.manifest.pages_at_hand import lists, segment_from
from quire.log.manifest.record import Look, ManifestRecord
from quire.log.manifest.recovery import check_kept, recover_segment, segment_options
from quire.log.records.encryption import Encryption
from quire.log.records.position import Position, check_position
from quire.log.segment_store.port import SegmentSink, SegmentStore

_log = logging.getLogger(__name__)

Taken: TypeAlias = LedgerFencedError | LedgerClosedError | NoSuchLedgerError
"""Errors by which a leader learns that another leader took its ledger."""

_DONE: Final[dict[type[Taken], str]] = {
    LedgerFencedError: "is recovering",
    LedgerClosedError: "has closed",
    NoSuchLedgerError: "has deleted",
}


class LiveSegment:
    """A segment that this leader writes, and its contents so far."""

    __slots__ = (
        "bytes",
        "confirmed",
        "created_ms",
        "encryption",
        "end",
        "entries",
        "first_offset",
        "number",
        "writer",
    )

    def __init__(
        self, segment: Segment, writer: SegmentSink, encryption: Encryption | None
    ) -> None:
        self.encryption = encryption
        self.number = segment.number
        self.created_ms = segment.created_ms
        self.writer = writer
        self.first_offset: int | None = segment.first_offset
        self.entries = 0
        """Entries sent, which is also the id of the next one."""
        self.bytes = 0
        self.confirmed: SegmentEnd = EMPTY
        self.end: SegmentEnd | None = None
        """Known once the ledger is closed."""

    @classmethod
    def begin(cls, segment: Segment, writer: SegmentSink, options: LogOptions) -> LiveSegment:
        """Return an empty segment of this leader."""
        return cls(segment, writer, Encryption.of(options.keyring, writer.facts))

    @property
    def is_decided(self) -> bool:
        """Whether every entry that was sent is confirmed."""
        return self.confirmed.last_entry + 1 == self.entries

    @property
    def next_offset(self) -> int:
        """The offset after the last confirmed record, if that is decided."""
        assert self.first_offset is not None, "a segment is begun at an offset"
        return self.first_offset + self.confirmed.records

    def note_sent(self, parcel: Parcel) -> None:
        """Give the parcel its entry id and count it."""
        if self.first_offset is None:
            self.first_offset = parcel.first_offset
        parcel.entry = self.entries
        parcel.stored = parcel.payload
        if self.encryption is not None:
            parcel.stored = self.encryption.seal(parcel.payload, parcel.entry, parcel.txid)
        self.entries += 1
        self.bytes += len(parcel.stored)

    def note_confirmed(self, parcel: Parcel) -> None:
        """Count an entry that was acknowledged, or found by recovery. Called in order."""
        before = self.confirmed
        self.confirmed = SegmentEnd(
            parcel.entry,
            parcel.records,
            before.records + parcel.records,
            before.bytes + len(parcel.stored),
            parcel.timestamp_ms,
            parcel.txid,
        )


class Chain:
    """Up to three segments of one leader, and the manifest edits that move them."""

    def __init__(
        self,
        record: ManifestRecord,
        segments: SegmentStore,
        options: LiveOptions,
        clocks: Clocks,
        manifest: LogManifest,
        current: LiveSegment,
        seen: int | None,
    ) -> None:
        """Begin with a segment at the end of a manifest of this leader, which was at the version
        `seen`; None if that is not known.
        """
        self.name = record.name
        self.log_id = manifest.log_id
        self.epoch = manifest.epoch
        self._options = options
        self.current = current
        self.previous: LiveSegment | None = None
        self.successor: LiveSegment | None = None
        self.manifest = manifest
        self.seen = seen
        """The version of the last manifest that this leader obeyed."""
        self._has_doomed = _dooms(manifest)
        self._record = record
        self._segments = segments
        self._clocks = clocks
        self._spare: SegmentSink | None = None
        self._is_offered = False
        """Whether a manifest may list the spare."""
        self._lock = asyncio.Lock()
        self._editing = asyncio.Lock()

    @property
    def may_rest(self) -> bool:
        """Whether there is one segment, decided, and no edit under way or to be expected."""
        others = self.previous or self.successor or self._spare
        is_still = not (self._lock.locked() or self._editing.locked())
        return is_still and not others and not self._has_doomed and self.current.is_decided

    def now_ms(self) -> int:
        """Wall-clock milliseconds (Unix)."""
        return self._clocks.now_ms()

    def reading(self) -> Reading:
        """Return the present readings of this process's clocks."""
        return self._clocks.reading()

    def counted_ms(self) -> int:
        """Return the time that the log has counted until now, in ms (ages.py)."""
        return self.manifest.ages.at(self.reading()).counted_ms

    def warn_of_clocks(self) -> None:
        """Warn if the log's last record has a timestamp far from now, or this clock has jumped."""
        ahead_ms = self.manifest.last_timestamp_ms - self.now_ms()
        if ahead_ms > APART_MS:
            _log.warning(
                "log %r: its last record is of a time %.0f s after this leader's clock: one of the "
                "two clocks is wrong; new records bear this leader's time, and retention by age "
                "counts what two clocks agree on (docs/operations.md)",
                self._record.name,
                ahead_ms / 1000,
            )
        jump_ms = self.manifest.ages.jump_ms(self.reading())
        if abs(jump_ms) > APART_MS:
            _log.warning(
                "log %r: the wall clock of this machine was put %s by %.0f s since the log was "
                "written last: it is wrong now, or was then; retention by age goes on, and "
                "records bear its time (docs/operations.md)",
                self._record.name,
                "forward" if jump_ms > 0 else "back",
                abs(jump_ms) / 1000,
            )

    def check_mine(self, manifest: LogManifest | None) -> LogManifest:
        """Return the manifest if this leader still has the log, and follow its options. Raises
        `DeposedError`.
        """
        if manifest is None or manifest.log_id != self.log_id:
            raise DeposedError(self.name, self.epoch, "the log was deleted")
        if manifest.epoch != self.epoch:
            raise DeposedError(self.name, self.epoch, f"epoch {manifest.epoch} has begun")
        self._options.follow(manifest.settings)
        self._has_doomed = _dooms(manifest)
        return manifest

    async def confirm_mine(self, manifest: LogManifest | None, version: int | None) -> None:
        """Raise `DeposedError` when another leader has the log, after deleting the spare."""
        try:
            self.check_mine(manifest)
            self.seen = version
        except DeposedError:
            await self._discard_spare(manifest)
            raise

    async def find_mine(self) -> LogManifest:
        """Return the manifest as it is now. Raises `DeposedError` when another leader has the
        log.
        """
        return self.check_mine((await self._record.find())[0])

    async def edit(
        self, change: Callable[[LogManifest], LogManifest], *, look: Look | None = None
    ) -> LogManifest:
        """Change the manifest while this leader has the log, and add to its counted time
        (ages.py). `look` as
        in `ManifestRecord.edit`.

        One edit at a time: the result of an edit that read earlier must not replace the result
        of a later one. Raises `DeposedError`, and the errors of `ManifestRecord.edit`.
        """
        seen: list[LogManifest | None] = []

        def edit(manifest: LogManifest | None) -> LogManifest:
            seen[:] = [manifest]
            before = self.check_mine(manifest)
            after = change(before)
            return before if after == before else after.aged(self.reading())

        async with self._editing:
            try:
                self.manifest = await self._record.edit(edit, look=look)
            except DeposedError:
                await self._discard_spare(seen[0])
                raise
            self._has_doomed = _dooms(self.manifest)
            if self._record.written is not None:
                self.seen = max(self.seen or 0, self._record.written)
            return self.manifest

    @property
    def is_prepared(self) -> bool:
        """Whether there is a ledger for the next segment."""
        return self._spare is not None

    async def prepare(self, number: int) -> None:
        """Create the ledger after segment `number` ahead. Does nothing if there is a successor.

        Raises the errors of creating a ledger.
        """
        async with self._lock:
            if self.successor is None and self.current.number == number:
                await self._spare_writer()

    async def install_successor(self, number: int) -> None:
        """Create the ledger after segment `number` and put it into the manifest, unwritten.

        Seals the previous segment first if it is not sealed yet. Does nothing if the writes have
        left segment `number` already.
        """
        async with self._lock:
            if self.successor is None and self.current.number == number:
                await self._seal_previous()
                await self._append_successor(None)

    async def replace_current(self) -> None:
        """Seal the current segment, whose ledger was closed by recovery, and install a
        successor.

        One compare-and-set does both. If a successor was installed before, the current segment
        is sealed like any other once the writes have moved.
        """
        async with self._lock:
            if self.successor is None:
                check_takeover(self.manifest)
                await self._seal_previous()
                await self._append_successor(self.current)

    async def _append_successor(self, over: LiveSegment | None) -> None:
        writer = await self._spare_writer()

        def change(manifest: LogManifest) -> LogManifest:
            if manifest.lists(writer.ledger):
                return manifest
            if over is not None and over.end is not None:
                manifest = _seal(manifest, {over.writer.ledger: over.end})
            return manifest.append_segment(writer.ledger, self.now_ms())

        self._is_offered = True
        manifest = await self.edit(change)
        self._spare, self._is_offered = None, False
        assert manifest.tail is not None
        self.successor = LiveSegment.begin(manifest.tail, writer, self._options.now)

    async def _spare_writer(self) -> SegmentSink:
        """Return the ledger to use next. It is kept over attempts, so that an outage costs one
        ledger.
        """
        wanted = segment_options(self._options.now, self.manifest, self.epoch, self._segments)
        spare = None if self._is_offered else self._spare
        if spare is not None and not self._segments.fits(spare, wanted):
            await self._discard_spare(self.manifest)
        if self._spare is None:
            self._spare = await self._segments.create(wanted)
        return self._spare

    async def _discard_spare(self, manifest: LogManifest | None) -> None:
        spare, self._spare, self._is_offered = self._spare, None, False
        if spare is None:
            return
        spare.abandon()
        if manifest is None or not await lists(manifest, spare.ledger):
            with suppress(QuireError):
                await self._segments.delete(spare.ledger)

    def switch(self) -> None:
        """Move the writes over. Every entry of the current segment must be decided."""
        assert self.successor is not None
        assert self.previous is None
        before, after = self.current.number, self.successor.number
        assert after == before + 1, f"segment {after} cannot follow segment {before}"
        self.previous, self.current, self.successor = self.current, self.successor, None

    async def seal_previous(self) -> None:
        """Close the previous segment's ledger and seal it in the manifest, if there is one."""
        async with self._lock:
            await self._seal_previous()

    async def _seal_previous(self) -> None:
        segment = self.previous
        if segment is None:
            return
        ends = {segment.writer.ledger: await self._close(segment)}
        await self.edit(lambda manifest: _seal(manifest, ends))
        self.previous = None

    async def _close(self, segment: LiveSegment) -> SegmentEnd:
        """Close a ledger of this leader, unless it is closed, and return its end."""
        if segment.end is None:
            try:
                await segment.writer.close()
            except (LedgerFencedError, LedgerClosedError, NoSuchLedgerError) as error:
                raise deposed_by(self.name, self.epoch, error) from error
            if not segment.writer.facts.is_sealed:  # it was abandoned: a close was cancelled
                return await self._recover(segment)
            segment.end = segment.confirmed
        return segment.end

    async def recover_current(self) -> SegmentEnd:
        """Close the current segment's ledger by recovery, because its writer failed."""
        self.current.writer.abandon()
        return await self._recover(self.current)

    async def check_kept(self, kept: Sequence[Parcel], end: SegmentEnd) -> None:
        """Compare the entries that recovery kept with the entries sent. Raises as
        `recovery.check_kept`.
        """
        ledger, password = self.current.writer.ledger, self._options.now.password
        if end.last_entry >= self.current.entries:
            raise CorruptEntryError(ledger, end.last_entry, "this leader sent no such entry")
        if kept:
            payloads = [parcel.stored for parcel in kept]
            await check_kept(self._segments, ledger, kept[0].entry, payloads, password)

    async def _recover(self, segment: LiveSegment) -> SegmentEnd:
        listed = await segment_from(await self.find_mine(), segment.number)
        if listed is None or listed.ledger != segment.writer.ledger:
            raise DeposedError(self.name, self.epoch, f"segment {segment.number} is gone")
        try:
            segment.end = listed.end or await recover_segment(
                self._segments, listed, segment.first_offset or 0, self._options.now.password
            )
        except NoSuchLedgerError as error:
            raise deposed_by(self.name, self.epoch, error) from error
        return segment.end

    async def finish(self, *, seal_log: bool) -> LogManifest:
        """Close and seal every segment of this leader, in one edit. Nothing may be in flight."""
        async with self._lock:
            live = [each for each in (self.previous, self.current, self.successor) if each]
            live += await self._listed_spare()
            ends = {each.writer.ledger: await self._close(each) for each in live}

            def change(manifest: LogManifest) -> LogManifest:
                manifest = _seal(manifest, ends)
                if manifest.open_segments:
                    raise ConflictError(f"log {self.name!r} grew while it was being closed")
                return manifest.seal_log() if seal_log else manifest

            manifest = await self.edit(change)
            await self._discard_spare(manifest)
            return manifest

    async def _listed_spare(self) -> list[LiveSegment]:
        """Return the spare ledger if the change that lists it was applied and its answer was
        lost.
        """
        tail, spare = (await self.find_mine()).tail, self._spare
        if spare is None or tail is None or tail.ledger != spare.ledger:
            return []
        return [LiveSegment.begin(tail, spare, self._options.now)]

    def check_trim(self, position: Position) -> None:
        """Raise `InvalidRequestError` for a value that is not a position, and for a trim that
        would remove records not written yet.
        """
        check_position(position)
        end = Position(self.current.number, self.current.confirmed.last_entry + 1, 0)
        if position > end:
            raise InvalidRequestError(
                f"log {self.name!r} cannot be trimmed to {position}: it ends at {end}"
            )

    def abandon(self) -> None:
        """Drop every writer without closing, as a crash would."""
        for segment in (self.previous, self.current, self.successor):
            if segment is not None:
                segment.writer.abandon()
        if self._spare is not None:
            self._spare.abandon()


def _dooms(manifest: LogManifest) -> bool:
    """Return whether something that left the log is still to be deleted."""
    return bool(manifest.doomed or manifest.doomed_files or manifest.doomed_pages)


def _seal(manifest: LogManifest, ends: dict[LedgerId, SegmentEnd]) -> LogManifest:
    for segment in manifest.open_segments:
        if segment.ledger in ends:
            manifest = manifest.seal_segment(segment.number, ends[segment.ledger])
    return manifest


def deposed_by(log: str, epoch: int, cause: Taken) -> DeposedError:
    """Return the error of a leader whose ledger another client took."""
    done = next(text for kind, text in _DONE.items() if isinstance(cause, kind))
    return DeposedError(log, epoch, f"another client {done} its ledger {cause.ledger}")
