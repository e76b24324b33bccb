"""The port of all peers: start servers, run workloads through their own client, end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from benchmarks.peers.workloads import Kind, Workload


class UnavailableError(Exception):
    """A peer cannot be installed or started; the text has the reason and the remedy."""


class PeerError(Exception):
    """A run of a peer failed; the next run may succeed."""


class Took(NamedTuple):
    """One run of a workload, as the client saw it."""

    entries: int
    seconds: float
    cpu_seconds: float
    """Of the client's process."""
    p50_ms: float
    p99_ms: float
    """Both 0 for a reading."""


class Peer(Protocol):
    """A system under measurement, in one of its settings."""

    @property
    def name(self) -> str:
        """Short, for the head of a column."""

    @property
    def kinds(self) -> Sequence[Kind]:
        """Kinds of the workloads that it runs."""

    async def start(self) -> None:
        """Start servers and client. Raises `UnavailableError` of a peer that is left out then."""

    async def run(self, workload: Workload, seconds: float) -> Took:
        """Run a workload; a reading reads entries of 1 KiB. Raises `PeerError`."""

    def servers(self) -> Sequence[int]:
        """Return the pids of the servers that store entries, with their children."""

    async def stop(self) -> None:
        """End all processes that it started. A second call does nothing."""
