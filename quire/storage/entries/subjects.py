"""The changes that a bookie's journal records, applied once they are durable."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from quire.entry import LedgerId
from quire.observer import Source
from quire.run import ScannedRun


class RunSubject(NamedTuple):
    """Entries, to be applied."""

    scanned: ScannedRun
    source: Source
    arrived: float


class KeySubject(NamedTuple):
    """A ledger's first key, to be applied."""

    ledger: LedgerId
    key: bytes


class FenceSubject(NamedTuple):
    """A fence, to be applied."""

    ledger: LedgerId
    key: bytes


Subject: TypeAlias = RunSubject | KeySubject | FenceSubject | None
