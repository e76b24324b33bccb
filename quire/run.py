"""Runs: frames of one ledger handled as one unit by every layer.

A *run* is the concatenation of its frames, each after its length (docs/formats.md, "Run"):

    | size u32 | frame | size u32 | frame | …        ids strictly ascending, one ledger

Ids ascend but need not be consecutive: in a striped ensemble a bookie gets every other entry. The
client packs a run once, the wire carries it as one bytes field, and the bookie appends it to its
journal as it is. `scan_run` is the gateway that verifies a run from outside.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from operator import lt
from typing import Final, NamedTuple

from quire.entry import ENTRY_BYTES_MAX, HEADER, NO_ENTRY, EntryId, FrameParts, LedgerId
from quire.errors import InvalidRequestError

RUN_BYTES_MAX: Final = 1024 * 1024
"""A run is cut when its frames reach this many bytes; one larger frame travels alone."""

FRAME_BYTES_MAX: Final = ENTRY_BYTES_MAX + HEADER.size + 32

SIZE: Final = struct.Struct(">I")
NUMBER_BYTES: Final = array("q").itemsize
"""Bytes of one number in a column that is not a `range`."""

_PREFIX: Final = struct.Struct(">Iqqq")


class FrameAt(NamedTuple):
    """Where one frame of a run lies: `run[offset : offset + size]`."""

    entry: EntryId
    offset: int
    size: int


@dataclass(slots=True, eq=False)
class ScannedRun:
    """A run that was checked by `scan_run`, and where its frames are. Never changed: it is not
    frozen because that would take a microsecond of each run.

    Columns instead of one object per frame: for frames of one size with consecutive ids, which is
    what writers send, both columns are `range`s and cost nothing per frame. Any other column is an
    array of 64-bit numbers: as a list it would cost more than a small frame does.
    """

    ledger: LedgerId
    data: bytes | memoryview
    entries: Sequence[EntryId]
    bounds: Sequence[int]
    """Where each frame's size begins, and the end: one more than `entries`."""
    lac: EntryId
    """The highest LAC in any header: the last entry the writer had confirmed when it sealed."""

    @property
    def first(self) -> EntryId:
        return self.entries[0]

    @property
    def last(self) -> EntryId:
        return self.entries[-1]

    @property
    def count(self) -> int:
        return len(self.entries)

    @property
    def size(self) -> int:
        """Bytes of all frames with their sizes."""
        return len(self.data)

    @property
    def is_ascending(self) -> bool:
        """Whether each id is above the one before; a column of consecutive ids costs no look."""
        entries = self.entries
        if isinstance(entries, range):
            return entries.step > 0
        return all(map(lt, entries, islice(entries, 1, None)))

    @property
    def column_bytes(self) -> int:
        """Bytes of memory that the columns cost."""
        if isinstance(self.bounds, range) and isinstance(self.entries, range):
            return 0
        columns = (self.entries, self.bounds)
        return sum(NUMBER_BYTES * len(each) for each in columns if not isinstance(each, range))

    @property
    def frames(self) -> Iterator[FrameAt]:
        """Yield where each frame is."""
        for number, entry in enumerate(self.entries):
            start = self.bounds[number] + SIZE.size
            yield FrameAt(entry, start, self.bounds[number + 1] - start)

    @property
    def stride(self) -> int | None:
        """Bytes from one frame to the next, when all are of one size and ids are consecutive."""
        return self.bounds.step if isinstance(self.bounds, range) else None

    def cut(self, low: int, high: int) -> memoryview:
        """Return frames number low ≤ n < high, as a run, without copying."""
        return memoryview(self.data)[self.bounds[low] : self.bounds[high]]

    def frame(self, entry: EntryId) -> memoryview:
        """Return the frame of an entry the run holds, without copying."""
        number = bisect_left(self.entries, entry)
        return memoryview(self.data)[self.bounds[number] + SIZE.size : self.bounds[number + 1]]


PEEK_BYTES: Final = _PREFIX.size
"""As many bytes of a run as `peek` looks at."""


def peek(run: bytes) -> tuple[LedgerId, EntryId] | None:
    """Return the ledger and the first entry of a run that was not checked, for a log; None if it
    has none. The first `PEEK_BYTES` of the run are enough.
    """
    if len(run) < _PREFIX.size:
        return None
    _, ledger, entry, _ = _PREFIX.unpack_from(run)
    return ledger, entry


def pack_run(frames: Iterable[bytes | memoryview]) -> bytes:
    """Return the run of some frames, in the order given."""
    parts: list[bytes | memoryview] = []
    for frame in frames:
        parts.append(SIZE.pack(len(frame)))
        parts.append(frame)
    return b"".join(parts)


def pack_parts(parts: FrameParts) -> bytes:
    """Return the run of one frame, given in parts: they are copied once."""
    header, digest, payload = parts
    size = len(header) + len(digest) + len(payload)
    return b"".join((SIZE.pack(size), header, digest, payload))


def split_run(run: bytes) -> Iterator[tuple[EntryId, bytes]]:
    """Yield (entry, frame) of each frame of a run. Raises `InvalidRequestError` as `scan_run`."""
    for at in scan_run(run).frames:
        yield at.entry, run[at.offset : at.offset + at.size]


def scan_run(run: bytes | memoryview) -> ScannedRun:
    """Check a run's structure and return where its frames are.

    Digests are not checked here: a bookie does not have the key of HMAC ledgers, and the reader
    verifies every frame. Raises `InvalidRequestError` when the run is empty, a size lies, ids do
    not ascend or are negative, or two ledgers are mixed.
    """
    return _scan_uniform(run) or _scan_any(run)


@lru_cache(maxsize=256)
def _uniform(step: int) -> struct.Struct:
    return struct.Struct(f"{_PREFIX.format}{step - _PREFIX.size}x")


def _scan_uniform(run: bytes | memoryview) -> ScannedRun | None:
    """Scan a run of consecutive frames of one size, column by column; None when it is not one."""
    end = len(run)
    if end < _PREFIX.size:
        return None
    size, ledger, first, only = _PREFIX.unpack_from(run)
    step = SIZE.size + size
    if not HEADER.size <= size <= FRAME_BYTES_MAX or end % step or ledger < 0 or first < 0:
        return None
    if end == step:
        if not NO_ENTRY <= only < first:
            return None
        return ScannedRun(ledger, run, range(first, first + 1), range(0, end + 1, step), only)
    sizes, ledgers, ids, lacs = zip(*_uniform(step).iter_unpack(run), strict=True)
    count, lac = len(ids), max(lacs)
    entries = range(first, first + count)
    if sizes.count(size) < count or ledgers.count(ledger) < count or ids != tuple(entries):
        return None
    if min(lacs) < NO_ENTRY or (lac >= first and not all(map(lt, lacs, ids))):
        return None
    return ScannedRun(ledger, run, entries, range(0, end + 1, step), lac)


def _scan_any(run: bytes | memoryview) -> ScannedRun:
    """Scan a run frame by frame, and report the first defect."""
    end = len(run)
    if end == 0:
        raise InvalidRequestError("run is empty")
    offset, previous, lac_max = 0, NO_ENTRY, NO_ENTRY
    ledger: int | None = None
    entries, bounds = array("q"), array("q", [0])
    while offset < end:
        if end - offset < _PREFIX.size:
            raise InvalidRequestError(f"run ends inside a frame at byte {offset} of {end}")
        size, frame_ledger, entry, lac = _PREFIX.unpack_from(run, offset)
        if not HEADER.size <= size <= min(FRAME_BYTES_MAX, end - offset - SIZE.size):
            raise InvalidRequestError(f"frame size {size} at byte {offset} of {end} is impossible")
        if ledger is None:
            ledger = frame_ledger
        elif frame_ledger != ledger:
            raise InvalidRequestError(f"run mixes ledgers {ledger} and {frame_ledger}")
        if entry <= previous or not NO_ENTRY <= lac < entry:
            raise InvalidRequestError(f"entry {entry} with LAC {lac} cannot follow {previous}")
        offset += SIZE.size + size
        entries.append(entry)
        bounds.append(offset)
        previous, lac_max = entry, max(lac_max, lac)
    assert ledger is not None
    if ledger < 0:
        raise InvalidRequestError(f"ledger id {ledger} is negative")
    first, is_dense = entries[0], previous - entries[0] == len(entries) - 1
    ids = range(first, previous + 1) if is_dense else entries
    return ScannedRun(ledger, run, ids, bounds, lac_max)
