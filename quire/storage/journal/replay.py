"""Reading the journal back after a stop, and refusing one that is damaged.

Records are applied in order from the checkpoint's position on. Where they stop, the whole rest of
the journal is searched for proof that more of it was durable once (record.py). With proof the
bookie does not start, because the lost part may be the only copy of an acknowledged entry.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from quire.errors import CorruptStorageError
from quire.storage.disk.blocks import BLOCK_BYTES
from quire.storage.disk.partial_read import Remains
from quire.storage.disk.port import Disk
from quire.storage.journal.record import (
    Record,
    SegmentHeader,
    decode_segment,
    find_proof,
    read_header,
    read_records,
)
from quire.storage.journal.segments import segment_path


class JournalPosition(NamedTuple):
    """A place in the journal: record `sequence` + 1 begins here, or at the start of a later
    segment.
    """

    segment: int
    offset: int
    sequence: int


async def _go_on(_: JournalPosition) -> None:
    """Do nothing between two segments."""


async def replay(
    disk: Disk,
    bookie: str,
    start: JournalPosition,
    numbers: list[int],
    apply: Callable[[Record], None],
    between: Callable[[JournalPosition], Awaitable[None]] = _go_on,
) -> JournalPosition:
    """Apply every record after `start`; return where the next one would begin.

    `numbers` are the segments found, from `start.segment` on. `between` is called before each
    further segment, with its position: the caller may make the applied records durable there, and
    give up the segments before it. Raises `CorruptStorageError` when a segment is missing, is not
    ours, or is damaged where damage cannot be the trace of a crash.
    """
    if numbers[:1] != [start.segment]:
        raise CorruptStorageError(
            segment_path(start.segment), "the checkpoint needs it, but it is missing"
        )
    reached = start
    previous: SegmentHeader | None = None
    for number in numbers:
        data, header = await load_segment(disk, bookie, number)
        if previous is not None:
            if not _continues(previous, header, data):
                continue
            reached = JournalPosition(number, BLOCK_BYTES, reached.sequence)
            await between(reached)
        sequence = reached.sequence
        records, end = _read(number, data, reached.offset, header.identity, sequence + 1)
        for record in records:
            apply(record)
        sequence += len(records)
        proof = find_proof(data, end, header.identity, sequence + 1)
        if proof is not None:
            raise CorruptStorageError(
                segment_path(number),
                f"record {sequence + 1} is missing or damaged, and the batch at byte {proof} "
                "was written after it was durable",
            )
        reached, previous = JournalPosition(number, end, sequence), header
    return reached


def ends_soundly(data: bytes, identity: int, start: JournalPosition) -> bool:
    """Whether a replay of one segment from a position on would meet no damage in it."""
    expected = start.sequence + 1
    try:
        records, end = read_records(data, start.offset, identity, expected)
    except ValueError:
        return False
    return find_proof(data, end, identity, expected + len(records)) is None


def _continues(previous: SegmentHeader, header: SegmentHeader, data: bytes) -> bool:
    """Tell whether a segment follows another; if not it must be left from a failed start.

    Such a segment begins a chain of its own and is empty: a process serves no client before its
    first checkpoint, and replay begins there.
    """
    if header.previous == previous.identity:
        return True
    if header.previous or read_header(data, BLOCK_BYTES, header.identity) is not None:
        raise CorruptStorageError(
            segment_path(header.number),
            f"it does not continue segment {previous.number}: one is missing or damaged",
        )
    return False


def _read(
    number: int, data: bytes, offset: int, identity: int, sequence: int
) -> tuple[list[Record], int]:
    try:
        return read_records(data, offset, identity, sequence)
    except ValueError as error:
        raise CorruptStorageError(
            segment_path(number), f"unknown kind of record: {error}"
        ) from error


async def load_segment(disk: Disk, bookie: str, number: int) -> tuple[bytes, SegmentHeader]:
    """Read a segment whole and check that it is the one its name says.

    Raises `CorruptStorageError` and OSError.
    """
    path = segment_path(number)
    file = await disk.open(path)
    try:
        data = await file.read(0, file.size)
    finally:
        await file.close()
    header = _checked(bookie, number, data)
    if len(data) != header.size:
        raise CorruptStorageError(path, f"it has {len(data)} bytes of {header.size}: it was cut")
    return data, header


async def load_remains(disk: Disk, bookie: str, number: int) -> tuple[bytes, SegmentHeader, bool]:
    """Read the rest of a segment, with zeros for unreadable blocks, and tell whether
    that is all of it.

    Raises `CorruptStorageError` and OSError when its header does not confirm its name.
    """
    file = await disk.open(segment_path(number))
    try:
        header = _checked(bookie, number, await file.read(0, BLOCK_BYTES))
        remains = Remains(file)
        data = await remains.read(0, file.size)
    finally:
        await file.close()
    return data, header, remains.is_all and len(data) == header.size


def _checked(bookie: str, number: int, data: bytes) -> SegmentHeader:
    """Return the header of the segment that a name promises."""
    path = segment_path(number)
    header = decode_segment(path, data)
    if header.bookie != bookie:
        raise CorruptStorageError(path, f"it belongs to bookie {header.bookie}, not to {bookie}")
    if header.number != number:
        raise CorruptStorageError(path, f"its header says segment {header.number}")
    return header
