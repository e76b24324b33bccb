"""Servers that end in the middle of a comparison: which, and what they said last."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.peers.peer import Peer

ENDED: Final = frozenset("ZX")
"""States of a process that does nothing any more."""


class Watch:
    """The servers of the peers, each with the file of its standard error."""

    def __init__(self) -> None:
        self._files: dict[int, Path] = {}

    def see(self, peer: Peer) -> None:
        """Remember where the running servers of a peer write."""
        for pid in peer.servers():
            if _runs(pid):
                self._files[pid] = (Path("/proc") / str(pid) / "fd" / "2").readlink()

    def ended(self, peer: Peer) -> str | None:
        """Return a line about a server of a peer that has ended, or None while all run."""
        gone = [pid for pid in peer.servers() if not _runs(pid)]
        # A child that ended meanwhile is not listed the second time.
        return next((self._line(pid) for pid in gone if pid in peer.servers()), None)

    def _line(self, pid: int) -> str:
        text = f"its server with pid {pid} has ended"
        lines = _lines(self._files.get(pid))
        return f"{text}; it said last: {lines[-1]}" if lines else text


def _runs(pid: int) -> bool:
    try:
        stat = (Path("/proc") / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in ENDED


def _lines(file: Path | None) -> Sequence[str]:
    if file is None or not file.is_file():
        return []
    return file.read_text(errors="replace").strip().splitlines()
