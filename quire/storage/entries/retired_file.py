"""The files `retired-0` and `retired-1`: the retired ids on the disk.

Two generations in turns: generation n is in `retired-<n mod 2>`, so the file that the checkpoint
names is never overwritten. Big-endian (docs/formats.md, "Retired ids"):

    header    | magic 8s | version u16 | generation u64 | agreed u64 | bookie 32s | intervals u64 |
              | crc of intervals u32 | crc of all before u32 |
    interval  | first i64 | last i64 |        deleted ids first; then, with bit 63 of `first` set,
                                              disowned ids

The newest whole file counts, whatever the checkpoint names. A deleted id is in every later file. A
disowned id may be added or taken away: what either needs is durable before (ledger_storage.py). So
a file ahead of the checkpoint is right. A file that is older than the named one is damage: the
bookie would take adds that a fence refuses, or drop copies that it has again.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left
from typing import Final, NamedTuple

from quire.errors import CorruptStorageError
from quire.storage.disk.blocks import crc32c
from quire.storage.disk.port import Disk, is_unreadable
from quire.storage.disk.renewal import renew_state
from quire.storage.disk.state_file import read_state, write_state
from quire.storage.entries.retired import Intervals, RetiredIds

PATHS: Final = ("retired-0", "retired-1")
MAGIC: Final = b"quireRET"
VERSION: Final = 1
DISOWNED: Final = -(1 << 63)
"""Bit 63 of an interval's first id, as a signed number."""

FILE_BYTES_MAX: Final = 1 << 30
"""67 million intervals."""

_HEADER: Final = struct.Struct(">8sHQQ32sQI")
_CRC: Final = struct.Struct(">I")
_INTERVAL_BYTES: Final = 16


class RetiredFile(NamedTuple):
    """What one file says. `agreed` is the incarnation of the metadata store that the bookie last
    agreed to, 0 when it never did.
    """

    generation: int
    agreed: int
    ids: RetiredIds

    def next(self, *, agreed: int | None = None, ids: RetiredIds | None = None) -> RetiredFile:
        """Return the content of the next generation, by default the same."""
        return RetiredFile(
            self.generation + 1,
            self.agreed if agreed is None else agreed,
            self.ids if ids is None else ids,
        )


NOTHING: Final = RetiredFile(0, 0, RetiredIds())
"""For a bookie that has no file yet. Generations of files begin at 1."""


def retired_bytes(ids: RetiredIds, more: int) -> int:
    """Return the largest size of a file for some ids and so many more."""
    intervals = len(ids.deleted) + len(ids.disowned) + more
    return _HEADER.size + _CRC.size + _INTERVAL_BYTES * intervals


def encode_retired(bookie: str, file: RetiredFile) -> bytes:
    """Return the bytes of a file."""
    deleted, disowned = file.ids.deleted, file.ids.disowned
    marked = array("q", (first + DISOWNED for first in disowned.firsts))
    rows = array("q", bytes(8 * 2 * (len(deleted) + len(disowned))))
    rows[::2] = deleted.firsts + marked
    rows[1::2] = deleted.lasts + disowned.lasts
    _swap(rows)
    data = rows.tobytes()
    fields = (file.generation, file.agreed, bookie.encode("ascii"), len(rows) // 2, crc32c(data))
    header = _HEADER.pack(MAGIC, VERSION, *fields)
    return header + _CRC.pack(crc32c(header)) + data


def decode_retired(path: str, bookie: str, data: bytes) -> RetiredFile:
    """Return the content of a bookie's file. Raises `CorruptStorageError` naming the file."""
    found, file = parse_retired(path, data)
    if found != bookie:
        raise CorruptStorageError(path, f"it belongs to bookie {found}, not to {bookie}")
    return file


def parse_retired(path: str, data: bytes) -> tuple[str, RetiredFile]:
    """Return the bookie that a file belongs to, and its content.

    Raises `CorruptStorageError` naming the file.
    """
    if len(data) < _HEADER.size + _CRC.size or data[: len(MAGIC)] != MAGIC:
        raise CorruptStorageError(path, "it is not a file of retired ids")
    if _CRC.unpack_from(data, _HEADER.size)[0] != crc32c(data[: _HEADER.size]):
        raise CorruptStorageError(path, "the header fails its checksum")
    _, version, generation, agreed, owner, count, crc = _HEADER.unpack_from(data)
    if version != VERSION:
        raise CorruptStorageError(path, f"version {version} is unknown to this program")
    body = data[_HEADER.size + _CRC.size :]
    if len(body) != count * _INTERVAL_BYTES or crc32c(body) != crc:
        raise CorruptStorageError(path, "the intervals fail their checksum")
    bookie = owner.rstrip(b"\0").decode("ascii", "replace")
    return bookie, RetiredFile(generation, agreed, _decode_ids(path, body))


def _decode_ids(path: str, body: bytes) -> RetiredIds:
    rows = array("q", body)
    _swap(rows)
    firsts, lasts = rows[::2], rows[1::2]
    at = bisect_left(firsts, 1, key=lambda first: first < 0)
    unmarked = array("q", (first - DISOWNED for first in firsts[at:]))
    ids = RetiredIds(Intervals(firsts[:at], lasts[:at]), Intervals(unmarked, lasts[at:]))
    if not (ids.deleted.are_sound() and ids.disowned.are_sound()):
        raise CorruptStorageError(path, "its intervals are not ascending and disjoint")
    return ids


def _swap(rows: array[int]) -> None:
    """Turn the byte order of this machine into the file's byte order, or back."""
    if sys.byteorder == "little":
        rows.byteswap()


async def write_retired(disk: Disk, bookie: str, file: RetiredFile) -> None:
    """Make a generation durable, over the one before the last. Raises OSError; then the file of
    the last generation is as it was.
    """
    await write_state(disk, PATHS[file.generation % 2], encode_retired(bookie, file))


async def renew_retired(disk: Disk, file: RetiredFile) -> None:
    """Make the name of a generation's file durable, if it has one (disk/renewal.py). Raises
    OSError.
    """
    if file.generation:
        await renew_state(disk, PATHS[file.generation % 2], bytes_max=FILE_BYTES_MAX)


async def read_retired(disk: Disk, bookie: str) -> tuple[RetiredFile, list[CorruptStorageError]]:
    """Return the newest whole file (`NOTHING` without one), and the faults of the others.

    Raises OSError.
    """
    newest, damage = NOTHING, list[CorruptStorageError]()
    for path in PATHS:
        try:
            data = await read_state(disk, path, bytes_max=FILE_BYTES_MAX)
            found = NOTHING if data is None else decode_retired(path, bookie, data)
        except CorruptStorageError as error:
            damage.append(error)
        except OSError as error:
            if not is_unreadable(error):
                raise
            unreadable = CorruptStorageError(path, str(error))
            unreadable.__cause__ = error
            damage.append(unreadable)
        else:
            newest = max(newest, found, key=lambda each: each.generation)
    return newest, damage


async def load_retired(disk: Disk, bookie: str, named: int) -> RetiredFile:
    """Return the newest whole file, which the checkpoint names by its generation, or a newer one.

    Raises `CorruptStorageError` when there is only an older one: ids are missing from it. Raises
    OSError, also when a file cannot be read: the next start may be able to.
    """
    found, damage = await read_retired(disk, bookie)
    if found.generation >= named:
        return found
    for each in damage:
        if isinstance(each.__cause__, OSError):
            raise each.__cause__
    raise damage[0] if damage else is_older(found, named)


def is_older(found: RetiredFile, named: int) -> CorruptStorageError:
    """Return the fault when the newest whole file is older than the checkpoint names."""
    reason = f"the checkpoint needs generation {named}, the newest found is {found.generation}"
    return CorruptStorageError(PATHS[named % 2], reason)
