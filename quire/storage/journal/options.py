"""The options of a bookie's storage, and the arithmetic of each default."""

from __future__ import annotations

from dataclasses import dataclass

from quire.checked import check_types
from quire.errors import ConfigurationError
from quire.storage.disk.blocks import BLOCK_BYTES


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """Sizes in bytes, times in seconds. Raises `ConfigurationError` when they cannot work
    together, or are of another type."""

    segment_bytes: int = 16 * 1024 * 1024
    """One journal segment. A run with its framing must fit, so this also bounds a run."""

    batch_bytes_max: int = 4 * 1024 * 1024
    """One write and sync of the journal takes at most this much (a larger run goes alone): 4 MiB is
    1.5 ms on a disk of 2.5 GB/s, so no append waits long for a bulk writer."""

    witness_seconds: float = 0.25
    """How long, and at most twice that, the journal is idle before it proves that its last batch is
    durable: one more 4 KiB block per pause, and never while an append waits."""

    write_cache_bytes: int = 32 * 1024 * 1024
    """Entries gathered before they are sorted into an entry-log file."""

    memory_bytes_max: int = 128 * 1024 * 1024
    """Entries in memory that are in no entry-log file yet: one cache filling, one being flushed,
    and as much again in the journal's queue. Beyond it adds wait, then are refused as busy."""

    read_cache_bytes: int = 64 * 1024 * 1024
    """Chunks that readers of entry logs fetched lately: an answer of 1 MiB for each of some sixty
    readers. (Chunks fetched ahead of sequential readers are in the page cache.) 0 keeps nothing."""

    list_bytes_max: int = 1024 * 1024
    """Bytes read, or scanned in memory, for one piece of the list of a ledger's entries: 50 ms
    where entries are smallest, and a hundred seeks of a slow disk take a second."""

    journal_segments_max: int = 12
    """Segments that may wait for a flush: lone small adds fill the journal (4 KiB each) long before
    they fill the write cache."""

    spare_segments_max: int = 12
    """Reclaimed segments kept for reuse; more are removed. One is kept in any case. A flush gives
    up to `journal_segments_max` back at once, and a segment that is missing then is written twice:
    full of zeros, in small synced pieces, and with records."""

    low_space_bytes: int = 256 * 1024 * 1024
    """With less free the bookie takes no new entries: space for one flush and the segments of a
    recovery, so that it can still fence, take recovery adds and start again. A quarter of a disk
    that is small."""

    high_space_bytes: int = 512 * 1024 * 1024
    """A bookie that became read-only takes new entries again with this much free: twice the low
    mark, so that it does not go back and forth. Half of a disk that is small. Below it space is
    reclaimed without delay."""

    space_check_seconds: float = 10.0
    """How often a bookie looks whether there is space (again)."""

    stall_seconds: float = 10.0
    """When the disk has kept one operation for so long, new work is refused as busy instead of
    queued. Twice the time clients wait: they have given up on the queued requests."""

    collect_seconds: float = 600.0
    """How often the bookie looks for deleted ledgers. One is dropped the second time it is found
    deleted, so its space comes back after ten to twenty minutes."""

    first_collect_seconds: float = 60.0
    """When the first look after a start is, if `collect_seconds` is not shorter: a bookie that
    is often restarted would never find a deleted ledger twice."""

    disown_seconds: float = 3600.0
    """How long a ledger must have been without this bookie before the bookie proves that its copies
    are superfluous and forgets them: far longer than a request for copies takes."""

    minor_live_share: float = 0.2
    """Every round rewrites files with a smaller live share than this."""

    major_live_share: float = 0.8
    """Once in `major_seconds`, and when the disk is nearly full, the same with this."""

    major_seconds: float = 24 * 3600.0

    joined_bytes_max: int = 1024 * 1024 * 1024
    """Small neighbouring files are joined up to this size. Small is an eighth of it: as much as one
    flush writes when it is as late as `memory_bytes_max` allows."""

    upkeep_bytes_per_second: int = 32 * 1024 * 1024
    """What compaction copies per second: a fraction of any disk."""

    slow_append_seconds: float = 0.1
    """While more than one of a hundred appends waits longer for the journal, copies of entries that
    the bookie lacks are made at half the rate, and at half of that. A healthy disk answers in a
    tenth of it."""

    mend_seconds: float = 5.0
    mend_seconds_max: float = 300.0
    """Pause before a repaired bookie asks again for its missing entries; it doubles while they do
    not come. A round asks metadata once for each ledger in limbo."""

    scrub_seconds: float = 7 * 24 * 3600.0
    """Pause between two rounds of scrubbing; the first begins within it from the start."""

    suspect_seconds: float = 60.0
    """Damage that a read met is looked at soon, and the same not again for so long: damage that
    cannot be repaired yet may be met a thousand times a second."""

    scrub_bytes_per_second: int = 8 * 1024 * 1024
    """What scrubbing reads: a terabyte takes a day and a half."""

    open_files_max: int = 128
    """Entry-log files held open for reads."""

    close_seconds: float = 30.0
    """How long closing waits for the disk before it gives up, as a crash would."""

    def __post_init__(self) -> None:
        check_types(self)
        if self.segment_bytes % BLOCK_BYTES or self.segment_bytes < 4 * BLOCK_BYTES:
            raise ConfigurationError(
                f"segment_bytes {self.segment_bytes} must be a multiple of {BLOCK_BYTES}, "
                "at least four times that"
            )
        if self.memory_bytes_max < 2 * self.write_cache_bytes:
            raise ConfigurationError(
                f"memory_bytes_max {self.memory_bytes_max} must hold two write caches "
                f"of {self.write_cache_bytes} bytes"
            )
        if self.high_space_bytes < self.low_space_bytes:
            raise ConfigurationError(
                f"high_space_bytes {self.high_space_bytes} must not be below "
                f"low_space_bytes {self.low_space_bytes}"
            )
        if self.read_cache_bytes < 0:
            raise ConfigurationError(f"read_cache_bytes {self.read_cache_bytes} is negative")
        if min(self.write_cache_bytes, self.open_files_max, self.list_bytes_max) < 1:
            raise ConfigurationError("storage sizes must be positive")
        if self.journal_segments_max < 2:
            raise ConfigurationError(
                f"journal_segments_max {self.journal_segments_max} must be at least 2: one segment "
                "is written, and the next one is ready"
            )

    def low_mark(self, total_bytes: int) -> int:
        """Return the low mark of a disk, in bytes."""
        return min(self.low_space_bytes, total_bytes // 4)

    def high_mark(self, total_bytes: int) -> int:
        """Return the high mark of a disk, in bytes, such that a half empty disk reaches it."""
        return min(self.high_space_bytes, total_bytes // 2)

    @property
    def reserve_bytes(self) -> int:
        """Bytes kept back for a start on a full disk, besides the space for the records that it
        replays: a mebibyte, which lists 100,000 entry logs or keeps 20,000 fences.
        """
        return self.segment_bytes // 16

    @property
    def replayed_bytes_max(self) -> int:
        """Replayed entries beyond which a start flushes before it reads another segment. Small
        entries of several segments share an entry log, and none is much larger than a segment.
        """
        return self.segment_bytes // 2

    @property
    def last_bytes(self) -> int:
        """The end of a journal segment that takes no runs while the next segment is not there:
        space for fences if the disk is found full.
        """
        return self.segment_bytes // 4 // BLOCK_BYTES * BLOCK_BYTES

    @property
    def run_bytes_max(self) -> int:
        """Largest run a segment can hold after its header block and the record's own header."""
        return self.segment_bytes - 2 * BLOCK_BYTES
