"""The figures of a benchmark, and their shares of the raw limits. Pure values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

COPIES: Final = 3
"""Every entry is written by three bookies, all on this machine's one disk."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One workload: `count` operations of `size` bytes in `seconds`; latencies in milliseconds.

    `cpu_us` is the CPU time of the measuring process per operation, in microseconds.
    """

    name: str
    count: int
    size: int
    seconds: float
    p50_ms: float
    p99_ms: float
    cpu_us: float

    @property
    def per_second(self) -> float:
        """Operations per second."""
        return self.count / self.seconds

    @property
    def megabytes_per_second(self) -> float:
        """Payload bytes per second, in units of 1,000,000 bytes."""
        return self.count * self.size / self.seconds / 1e6

    @classmethod
    def of(
        cls, name: str, size: int, seconds: float, latencies: Sequence[float], cpu: float
    ) -> Figures:
        """Return the figures of a run, given latencies and CPU time in seconds.

        Raises `ValueError` when nothing was completed.
        """
        if not latencies:
            raise ValueError(f"{name}: nothing was completed within {seconds:g} s")
        ordered = sorted(latencies)
        count = len(ordered)
        return cls(
            name,
            count,
            size,
            seconds,
            p50_ms=ordered[count // 2] * 1e3,
            p99_ms=ordered[min(count - 1, count * 99 // 100)] * 1e3,
            cpu_us=cpu / count * 1e6,
        )

    def times(self, each: float) -> Figures:
        """Return the figures if each operation counts as so many."""
        return replace(self, count=round(self.count * each), cpu_us=self.cpu_us / each)


@dataclass(frozen=True, slots=True)
class RawLimits:
    """The limits of this machine without quire, measured in the same run."""

    sync_4k: Figures
    """4 KiB written and fdatasynced into a preallocated file."""
    sync_1m: Figures
    """The same with 1 MiB."""
    message_alone: Figures
    """One 1 KiB message there and a short one back, over a loopback gRPC stream."""
    message_pipelined: Figures
    """The same with 64 messages under way."""
    path_alone: Figures
    """A message to three servers that each sync 4 KiB before they answer, until two have: the
    minimum of work for an append."""

    def all(self) -> tuple[Figures, ...]:
        """Return the limits in the order they were measured."""
        return (
            self.sync_4k,
            self.sync_1m,
            self.message_alone,
            self.message_pipelined,
            self.path_alone,
        )


@dataclass(frozen=True, slots=True)
class TlsFigures:
    """Appends and reads with mutual TLS, in the order of those without."""

    appends: tuple[Figures, ...]
    reads: tuple[Figures, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """The results of one run of the benchmark."""

    limits: RawLimits
    appends: tuple[Figures, ...]
    reads: tuple[Figures, ...]
    uvloop: bool
    tls: TlsFigures | None = None
    """The same with mutual TLS, if asked for."""

    def share(self, figures: Figures) -> tuple[float, str]:
        """Return the share (0–1) of a raw limit that a workload reached, and which limit that is.

        An append that waits alone cannot be faster than messages to three servers that sync.
        Many at a time cannot write more bytes than the disk syncs, and every byte is written
        `COPIES` times.
        """
        if figures is self.appends[0]:
            return self.limits.path_alone.p50_ms / figures.p50_ms, "three servers that sync"
        disk = self.limits.sync_1m.megabytes_per_second
        return COPIES * figures.megabytes_per_second / disk, f"synced bytes, {COPIES} copies"
