"""The threads of another process, as Linux tells of them."""

from __future__ import annotations

from pathlib import Path


def thread_states(pid: int) -> set[str]:
    """Return the states that threads of a process are in; T is stopped."""
    stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return {stat.rpartition(")")[2].split()[0] for stat in stats}
