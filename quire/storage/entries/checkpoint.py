"""The checkpoint: which entry-log files count, and from where the journal is still needed.

Written last in a flush: files and their names are durable before it lists them, and the journal's
old segments go only after it is durable. Two generations are kept, in turns, in two files; the
higher that is whole counts. Falling back on the older one is safe: either the segments and files it
names are still there, or the bookie refuses to start. It never moves backward.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import Final

from quire.errors import CorruptStorageError
from quire.fields import NOTHING, Unknown, joined, split
from quire.storage.disk.port import Disk
from quire.storage.disk.renewal import renew_state
from quire.storage.disk.state_file import decode_state, encode_state, read_state, write_state
from quire.storage.entries.doubtful import NO_HORIZON, Horizon, decode_ranges
from quire.storage.journal.replay import JournalPosition

KIND: Final = "checkpoint"
VERSION: Final = 1
PATHS: Final = ("checkpoint-0", "checkpoint-1")
_FIELDS: Final = frozenset({"generation", "position", "files", "limbo_below", "clean", "retired"})

LOST: Final = "it is missing: the bookie lost what it had"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`position` is where replay begins; `files` are the numbers of the entry logs, oldest data
    first. `horizon` is the one of the last repair; empty without a repair. `retired` is the
    generation of the retired ids (retired_file.py), 0 without such a file.
    """

    generation: int
    position: JournalPosition
    files: tuple[int, ...]
    horizon: Horizon = NO_HORIZON
    retired: int = 0
    unknown: Unknown = field(default=NOTHING, compare=False)

    def next(self, position: JournalPosition, files: tuple[int, ...], retired: int) -> Checkpoint:
        """Return the next checkpoint. It cannot forget anything replayed or flushed before."""
        assert position.sequence >= self.position.sequence, (position, self)
        assert position.segment >= self.position.segment, (position, self)
        assert retired >= self.retired, (retired, self)
        generation = self.generation + 1
        return replace(self, generation=generation, position=position, files=files, retired=retired)


FIRST: Final = Checkpoint(1, JournalPosition(0, 0, 0), ())
"""The position of a bookie that never served (formatting.py): segment 0 does not exist."""


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    body = {
        "generation": checkpoint.generation,
        "position": list(checkpoint.position),
        "files": list(checkpoint.files),
        "limbo_below": checkpoint.horizon.below,
        "clean": [list(each) for each in checkpoint.horizon.clean],
        "retired": checkpoint.retired,
    }
    return encode_state(KIND, VERSION, joined(body, checkpoint.unknown))


def decode_checkpoint(path: str, data: bytes) -> Checkpoint:
    """Raises `CorruptStorageError` naming the file."""
    body = decode_state(path, KIND, VERSION, data)
    below, clean = body.get("limbo_below", 0), body.get("clean", [])
    retired = body.get("retired", 0)
    match body:
        case {"generation": int(generation), "position": [_, _, _] as position, "files": [*files]}:
            numbers = (generation, *position, *files, below, retired)
            if all(type(each) is int and each >= 0 for each in numbers):
                with contextlib.suppress(ValueError, TypeError):
                    horizon = Horizon(below, decode_ranges(clean))
                    where = JournalPosition(*position)
                    unknown = split(body, _FIELDS)[1]
                    return Checkpoint(generation, where, tuple(files), horizon, retired, unknown)
    raise CorruptStorageError(path, f"not a checkpoint: {body}")


async def write_checkpoint(disk: Disk, checkpoint: Checkpoint) -> None:
    """Make a checkpoint durable, over the older of the two generations."""
    await write_state(disk, PATHS[checkpoint.generation % 2], encode_checkpoint(checkpoint))


async def renew_checkpoint(disk: Disk, checkpoint: Checkpoint) -> None:
    """Make the name of a checkpoint's file durable (disk/renewal.py). Raises OSError."""
    await renew_state(disk, PATHS[checkpoint.generation % 2])


async def read_checkpoint(disk: Disk) -> Checkpoint:
    """Return the latest whole checkpoint.

    Raises `CorruptStorageError` when no checkpoint is whole, or the directory lacks one: a
    directory has its first checkpoint before it has a cookie.
    """
    found: list[Checkpoint] = []
    damage = CorruptStorageError(KIND, LOST)
    for path in PATHS:
        data = await read_state(disk, path)
        if data is None:
            continue
        try:
            found.append(decode_checkpoint(path, data))
        except CorruptStorageError as error:
            damage = error
    if not found:
        raise damage
    return max(found, key=lambda checkpoint: checkpoint.generation)
