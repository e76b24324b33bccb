"""What happens to disks that no power cut explains: rot, errors, a full disk, a disk that is gone,
files that are shorter or longer after a crash.

Rot, loss and wrong sizes have a budget: one bookie of a run, where an acknowledgement means two
copies or more. Within it every acknowledged entry survives on another bookie and all must go on;
the damaged bookie may say that it does not know, may refuse to start, and is then repaired, or
replaced by an administrator with an empty disk and a new identity. It may never deny or alter
anything. A bookie that lost files is always repaired: somebody saw it happen.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from quire.errors import CorruptStorageError
from quire.storage.disk.blocks import BLOCK_BYTES
from quire.storage.journal.record import decode_segment, read_header
from tests.sim.disk import ENDLESS_BYTES, SimDisk

if TYPE_CHECKING:
    from tests.sim.machines import BookieMachine

RESIZES: Final = ("cut short", "grown")
FILES_LOST: Final = "files lost"
LATE: Final = (*RESIZES, FILES_LOST)
"""Kinds that came later: drawn behind all else, so that seeds stay what they were."""

DAMAGE: Final = ("bit rot", "disk lost", "read error", "disk full", *LATE)
JOURNAL: Final = "journal"
ROT_BLOCK_BYTES: Final = 64
ROT_WEIGHTS: Final = {JOURNAL: 4, "entries": 6}
GROWTH_BYTES: Final = (1, 512, 4096, 40_000)
READ_ERRORS: Final = ("", "entries/", "journal/")


def rot(disk: SimDisk, rng: random.Random) -> str | None:
    """Flip one bit of what is stored; return the file's name, None when nothing fit.

    The journal's last durable batch is spared: rot there cannot be told from a torn write, which
    is why an idle journal writes a witness behind it (quire/storage/journal/record.py).
    """
    places: dict[str, list[int]] = {}
    for path, data in disk.files().items():
        end = len(data)
        if path.startswith(JOURNAL):
            end = _last_batch(path, bytes(disk.inode(path).durable))
        blocks = [at for at in range(0, end, ROT_BLOCK_BYTES) if any(data[at : at + 8])]
        if blocks:
            places[path] = blocks
    if not places:
        return None
    kinds = sorted({path.partition("/")[0] for path in places})
    kind = rng.choices(kinds, [ROT_WEIGHTS.get(kind, 1) for kind in kinds])[0]
    path = rng.choice([each for each in places if each.partition("/")[0] == kind])
    offset = rng.choice(places[path]) + rng.randrange(ROT_BLOCK_BYTES)
    if offset >= disk.inode(path).size:
        return None
    disk.rot(path, offset, 1 << rng.randrange(8))
    return path


def resize(disk: SimDisk, kind: str, rng: random.Random) -> str | None:
    """Let a file be shorter or longer than it was, as after a check of the file system.

    What it is longer by is zeros. Return the file's name, None when there is none. Only for a disk
    that nobody has mounted.
    """
    sizes = {path: len(data) for path, data in disk.files().items() if data}
    if not sizes:
        return None
    rooms = sorted({path.partition("/")[0] for path in sizes})
    room = rng.choices(rooms, [ROT_WEIGHTS.get(each, 1) for each in rooms])[0]
    path = rng.choice([each for each in sizes if each.partition("/")[0] == room])
    size = sizes[path]
    is_cut = kind == "cut short"
    disk.resize(path, rng.randrange(size) if is_cut else size + rng.choice(GROWTH_BYTES))
    return path


def _last_batch(path: str, data: bytes) -> int:
    """Where the last batch of a journal segment begins; 0 for a file without any.

    Records of an earlier life of the file do not count: a segment is used again as it is.
    """
    try:
        identity = decode_segment(path, data).identity
    except CorruptStorageError:
        return 0
    blocks = range(BLOCK_BYTES, len(data), BLOCK_BYTES)
    return max((at for at in blocks if read_header(data, at, identity)), default=0)


def fail_reads(machine: BookieMachine, rng: random.Random) -> Callable[[], None]:
    """Let reads of some of a bookie's files fail; return what ends it."""
    budget = machine.world.budget
    place = rng.choice(READ_ERRORS)
    if not budget.allows_errors(machine):
        return lambda: None
    machine.world.loop.ailing.add(machine.name)
    machine.disk.faults.read_error = place
    budget.failing.append(machine)

    def mend() -> None:
        machine.disk.faults.read_error = None
        budget.failing.remove(machine)

    return mend


def fill(disk: SimDisk) -> Callable[[], None]:
    """Let the disk be full: only what its bookie removes makes room. Return what ends it.

    Others take what was free, and never what the bookie had and gave up: its reserve would be gone.
    """
    disk.filled_bytes = max(disk.filled_bytes, disk.used_bytes)
    disk.capacity_bytes = disk.filled_bytes

    def mend() -> None:
        disk.capacity_bytes = ENDLESS_BYTES

    return mend


def hurt_disk(kind: str, machine: BookieMachine, rng: random.Random) -> Callable[[], None]:
    """Bring one fault that passes to a bookie's disk; return what ends it."""
    faults = machine.disk.faults
    if kind == "slow disk":
        calm, faults.latency_seconds = faults.latency_seconds, 0.2
        return lambda: setattr(faults, "latency_seconds", calm)
    if kind == "hung disk":
        faults.is_hung = True
        return machine.disk.release
    if kind == "sync error":
        faults.sync_error = ""
        return lambda: setattr(faults, "sync_error", None)
    if kind == "read error":
        return fail_reads(machine, rng)
    assert kind == "disk full", kind
    return fill(machine.disk)


class Budget:
    """How many bookies of a run may lose what was durable."""

    def __init__(self, bookies: int) -> None:
        self._left = bookies
        self.damaged: list[BookieMachine] = []
        self.lost: set[str] = set()
        """Ids of bookies whose copies do not count any more."""
        self.failing: list[BookieMachine] = []
        """Bookies with reads that fail now."""
        self.counts_errors = False
        """Whether an error of the disk is damage, too. It is to a reader that leaves out gaps: the
        disk does not say whether the error will pass."""

    def set(self, ack_quorum: int) -> None:
        """Allow what an acknowledgement of so many copies survives: one loss."""
        self._left = 1 if ack_quorum > 1 else 0

    def take(self, machine: BookieMachine) -> bool:
        """Tell whether a bookie may be damaged, and count it."""
        if machine in self.damaged:
            return True
        if len(self.damaged) >= self._left or not self._is_alone(machine, self.failing):
            return False
        machine.is_damaged = True
        machine.world.loop.ailing.add(machine.name)
        self.damaged.append(machine)
        self.lost.add(machine.name)
        return True

    def allows_errors(self, machine: BookieMachine) -> bool:
        """Tell whether reads of a bookie may fail for a time."""
        return self._is_alone(machine, [*self.damaged, *self.failing])

    def _is_alone(self, machine: BookieMachine, others: Sequence[BookieMachine]) -> bool:
        return not self.counts_errors or all(each is machine for each in others)
