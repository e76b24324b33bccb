"""Runs: frames of one ledger handled as one unit by every layer.

A *run* is the concatenation of its frames, each behind its length (docs/formats.md, "Run"):

    | size u32 | frame | size u32 | frame | …        ids strictly ascending, one ledger

Ids ascend but need not be consecutive: in a striped ensemble a bookie gets every other entry. The
client packs a run once, the wire carries it as one bytes field, and the bookie appends it to its
journal as it is. `scan_run` is the gateway at which a run from outside is believed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from quire.entry import ENTRY_BYTES_MAX, HEADER, EntryId, LedgerId
from quire.errors import InvalidRequestError

RUN_BYTES_MAX: Final = 1024 * 1024
"""A run is cut when its frames reach this many bytes; one larger frame travels alone."""

FRAME_BYTES_MAX: Final = ENTRY_BYTES_MAX + HEADER.size + 32

_SIZE: Final = struct.Struct(">I")
_PREFIX: Final = struct.Struct(">Iqqq")


class FrameAt(NamedTuple):
    """Where one frame of a run lies: `run[offset : offset + size]`."""

    entry: EntryId
    lac: EntryId
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class ScannedRun:
    """A run that was checked by `scan_run`."""

    ledger: LedgerId
    frames: tuple[FrameAt, ...]
    lac: EntryId
    """The highest LAC in any header: what the writer had confirmed when it sealed."""

    @property
    def first(self) -> EntryId:
        return self.frames[0].entry

    @property
    def last(self) -> EntryId:
        return self.frames[-1].entry


def pack_run(frames: Iterable[bytes]) -> bytes:
    """Return the run of some frames, in the order given."""
    parts: list[bytes] = []
    for frame in frames:
        parts.append(_SIZE.pack(len(frame)))
        parts.append(frame)
    return b"".join(parts)


def split_run(run: bytes) -> Iterator[tuple[EntryId, bytes]]:
    """Yield (entry, frame) of each frame of a run. Raises `InvalidRequestError` as `scan_run`."""
    for at in scan_run(run).frames:
        yield at.entry, run[at.offset : at.offset + at.size]


def scan_run(run: bytes) -> ScannedRun:
    """Check a run's structure and return where its frames are.

    Digests are not checked here: a bookie does not have the key of HMAC ledgers, and the reader
    verifies every frame. Raises `InvalidRequestError` when the run is empty, a size lies, ids do
    not ascend or are negative, or two ledgers are mixed.
    """
    end = len(run)
    if end == 0:
        raise InvalidRequestError("run is empty")
    offset, previous, lac_max = 0, -1, -1
    ledger: int | None = None
    frames: list[FrameAt] = []
    unpack = _PREFIX.unpack_from
    while offset < end:
        if end - offset < _PREFIX.size:
            raise InvalidRequestError(f"run ends inside a frame at byte {offset} of {end}")
        size, frame_ledger, entry, lac = unpack(run, offset)
        start = offset + 4
        offset = start + size
        if not HEADER.size <= size <= FRAME_BYTES_MAX or offset > end:
            raise InvalidRequestError(
                f"frame size {size} at byte {start - 4} of {end} is impossible"
            )
        if ledger is None:
            ledger = frame_ledger
        elif frame_ledger != ledger:
            raise InvalidRequestError(f"run mixes ledgers {ledger} and {frame_ledger}")
        if entry <= previous or lac >= entry or lac < -1:
            raise InvalidRequestError(f"entry {entry} with LAC {lac} cannot follow {previous}")
        frames.append(FrameAt(entry, lac, start, size))
        previous = entry
        if lac > lac_max:
            lac_max = lac
    assert ledger is not None
    if ledger < 0:
        raise InvalidRequestError(f"ledger id {ledger} is negative")
    return ScannedRun(ledger, tuple(frames), lac_max)
