"""One damaged file, as the checks and the scrub report it. Pure."""

from __future__ import annotations

from typing import NamedTuple

from quire.entry import EntryId, LedgerId


class Damage(NamedTuple):
    """One damaged file or chunk; for chunks also the entries."""

    path: str
    reason: str
    ledger: LedgerId | None = None
    first: EntryId | None = None
    last: EntryId | None = None
