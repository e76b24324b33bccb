"""`LogInfo`: a log as programs and people see it. Pure.

The manifest is the record that leaders edit. Its fields may change with the protocol; these values
keep their meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quire.entry import LedgerId
from quire.log.manifest.capacity import manifest_bytes, warning
from quire.log.manifest.manifest import LogManifest
from quire.log.manifest.segment import Segment
from quire.log.records.position import Position


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """A segment of a log: the records of one ledger, or of the file that replaced it.

    `records`, `bytes` (payload bytes of the ledger) and `last_timestamp_ms` (Unix milliseconds) are
    None while the segment is open. `first_offset` is None while an open segment is before it.
    `file` is the URI of the file that the segment is read from, if it was offloaded.
    `is_on_bookies` says whether its ledger still belongs to the log.
    """

    number: int
    ledger: LedgerId
    epoch: int
    created_ms: int
    first_offset: int | None
    records: int | None
    bytes: int | None
    last_timestamp_ms: int | None
    is_ingested: bool
    file: str | None
    is_on_bookies: bool

    @property
    def is_open(self) -> bool:
        """Whether the segment has no end yet: its leader may still write it."""
        return self.records is None


@dataclass(frozen=True, slots=True)
class LogLeader:
    """The process that took a log over last: its host, its process id, and when (Unix ms).

    It may have ended since: nothing tells that but the next takeover.
    """

    host: str
    pid: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class LogInfo:
    """A log at one moment.

    `created_ms` is in Unix milliseconds. `first_position` is the first position that can be read;
    `first_offset` is the offset of the first record of the first segment, which a trim point inside
    that segment may exclude.
    `end_offset` is the offset of the next record; None while an open segment hides it
    (`Client.log_end` asks the bookies). `options` are the options that hold for every leader.
    `record_bytes` is the size of the log's record in the metadata store, and `warning` says that
    the record comes near its limit. `pending_deletes` counts the ledgers and files that left the
    log and are not deleted yet. `leader` is None where the last takeover named no process.
    """

    name: str
    log_id: str
    created_ms: int
    epoch: int
    is_sealed: bool
    is_being_deleted: bool
    first_position: Position
    first_offset: int
    end_offset: int | None
    segments: tuple[SegmentInfo, ...]
    options: Mapping[str, str]
    record_bytes: int
    warning: str | None
    pending_deletes: int
    tiers: tuple[str, ...] = field(default=())
    leader: LogLeader | None = None

    @property
    def records(self) -> int | None:
        """Records in the segments of the log; None while an open segment hides their number."""
        return None if self.end_offset is None else self.end_offset - self.first_offset


def info_of(manifest: LogManifest) -> LogInfo:
    """Return a manifest's facts for users of the log."""
    return LogInfo(
        manifest.name,
        manifest.log_id,
        manifest.created_ms,
        manifest.epoch,
        manifest.sealed,
        manifest.retired,
        manifest.first_position,
        manifest.first_offset,
        manifest.end_offset,
        tuple(map(info_of_segment, manifest.segments)),
        dict(manifest.settings),
        manifest_bytes(manifest),
        warning(manifest),
        _pending(manifest),
        manifest.tiers,
        leader_of(manifest),
    )


def leader_of(manifest: LogManifest) -> LogLeader | None:
    """Return the process of the present epoch, if the manifest names it."""
    holder = manifest.holder
    if holder is None or holder.epoch != manifest.epoch:
        return None
    return LogLeader(holder.host, holder.pid, holder.since_ms)


def _pending(manifest: LogManifest) -> int:
    paged = sum(each.reference.of.segments for each in manifest.doomed_pages)
    return paged + len(manifest.doomed) + len(manifest.doomed_files)


def info_of_segment(segment: Segment) -> SegmentInfo:
    """Return the facts of a manifest's row."""
    return SegmentInfo(
        segment.number,
        segment.ledger,
        segment.epoch,
        segment.created_ms,
        segment.first_offset,
        segment.records,
        segment.bytes,
        segment.last_timestamp_ms,
        segment.ingested,
        segment.cold.uri if segment.cold else None,
        segment.is_hot,
    )
