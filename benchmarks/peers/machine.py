"""The costs of a run beside time: processors, memory, bytes written, flushes of the device."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

from benchmarks.peers.peer import PeerError

TICKS: Final = os.sysconf("SC_CLK_TCK")
SYNC_FIELD: Final = 15
"""Place of the completed flush requests in a line of /sys/block/*/stat; Linux 5.5 has it."""

SETTLE_SECONDS: Final = 20.0
SETTLE_STEP: Final = 0.5
SETTLED_CORES: Final = 0.1
"""An idle bookie, broker or store uses less."""
SETTLED_BYTES: Final = 1024 * 1024

DISK_BYTES_A_SECOND: Final = 200_000_000
"""Of all servers together, while a workload appends: 150 MB in a run on two cores, with a share for
the warm-up. Nothing is deleted before the end of a kind of workloads.
"""


class Spent(NamedTuple):
    """Of some processes, since they began."""

    cpu_seconds: float
    written: int
    """Bytes that the processes caused to be written to storage."""
    flushes: int
    """Of all block devices, by all processes of the machine."""

    def __sub__(self, earlier: Self) -> Spent:
        return Spent(
            self.cpu_seconds - earlier.cpu_seconds,
            self.written - earlier.written,
            self.flushes - earlier.flushes,
        )


def spent(pids: Sequence[int]) -> Spent:
    """Read the counters of processes.

    Args:
        pids: running processes of this user.

    Raises:
        PeerError: A process does not run any more.
    """
    cpu, written = 0.0, 0
    for pid in pids:
        fields = _read(pid, "stat").rpartition(")")[2].split()
        cpu += (int(fields[11]) + int(fields[12])) / TICKS
        lines = dict(line.split(": ") for line in _read(pid, "io").splitlines())
        written += int(lines["write_bytes"])
    return Spent(cpu, written, _flushes())


def _read(pid: int, name: str) -> str:
    try:
        return (Path("/proc") / str(pid) / name).read_text()
    except (FileNotFoundError, ProcessLookupError):
        raise PeerError(f"its server with pid {pid} has ended") from None


def _flushes() -> int:
    counts = 0
    for each in Path("/sys/block").glob("*/stat"):
        fields = each.read_text().split()
        counts += int(fields[SYNC_FIELD]) if len(fields) > SYNC_FIELD else 0
    return counts


def with_children(pids: Sequence[int]) -> list[int]:
    """Return pids, each before the pids of its running children."""
    found: dict[int, list[int]] = {pid: [] for pid in pids}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(place.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent in found:
            found[parent].append(int(place.parent.name))
    return [each for pid in pids for each in (pid, *sorted(found[pid]))]


def check_disk(place: Path, seconds: float) -> None:
    """Check that appends for so many seconds find space in a directory.

    Raises:
        ValueError: It has less; the text says how much, and what to do.
    """
    free, needed = shutil.disk_usage(place).free, int(seconds * DISK_BYTES_A_SECOND)
    if free < needed:
        raise ValueError(
            f"{place} has {free / 1e9:.1f} GB free, and this run may take {needed / 1e9:.1f}: make "
            "space, set TMPDIR to another disk, or ask for less by --rounds, --seconds or --peers"
        )


async def settle(pids: Sequence[int], limit: float = SETTLE_SECONDS) -> bool:
    """Wait until no process has worked or written much for half a second.

    Servers flush and clean up behind a run. The next one, of another peer perhaps, shall not pay.

    Args:
        pids: running processes of this user.
        limit: when to go on in any case, in seconds.

    Returns:
        Whether the processes settled.

    Raises:
        PeerError: A process does not run any more.
    """
    before = [spent([pid]) for pid in pids]
    for _ in range(int(limit / SETTLE_STEP)):
        await asyncio.sleep(SETTLE_STEP)
        now = [spent([pid]) for pid in pids]
        used = [after - earlier for after, earlier in zip(now, before, strict=True)]
        before = now
        if all(_is_idle(each) for each in used):
            return True
    return False


def _is_idle(used: Spent) -> bool:
    return used.cpu_seconds <= SETTLED_CORES * SETTLE_STEP and used.written <= SETTLED_BYTES


def memory(pids: Sequence[int]) -> int:
    """Return the resident bytes of processes, added up; a page that some share counts once.

    Raises:
        PeerError: A process does not run any more.
    """
    return sum(map(_memory, pids))


def _memory(pid: int) -> int:
    lines = _read(pid, "smaps_rollup").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
