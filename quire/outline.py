"""An outline: first and last entry that a bookie holds of a ledger, and how many it holds.

Three numbers, which a bookie tells from its index. For auditing: an outline without gaps says
exactly which entries are held. One with gaps says how many: a lack shows in it unless the
bookie holds as many entries that it need not hold, between the same two. Then its list tells.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from quire.entry import EntryId, LedgerId
from quire.errors import InvalidRequestError

OUTLINES_MAX: Final = 1000
"""Ledgers in one request: at most 30 bytes each in the answer."""


class Outline(NamedTuple):
    """See the module."""

    first: EntryId
    last: EntryId
    entries: int

    @property
    def is_dense(self) -> bool:
        """Whether no entry between first and last is missing."""
        return self.last - self.first + 1 == self.entries


NOTHING: Final = Outline(0, -1, 0)
"""No entry is held."""


def check_outlines(ledgers: Sequence[LedgerId]) -> None:
    """Raise `InvalidRequestError` for more ledgers than one request may name."""
    if len(ledgers) > OUTLINES_MAX:
        raise InvalidRequestError(
            f"outlines of {len(ledgers)} ledgers are asked for at once: expected {OUTLINES_MAX} at "
            "most"
        )


def joined(spans: Iterable[Outline]) -> Outline | None:
    """Return the outline of several spans of one ledger, in any order.

    None if two overlap and one of them has gaps: how many entries both hold is not known then.
    """
    found: list[Outline] = []
    for span in sorted(spans):
        if not found or span.first > found[-1].last + 1:
            found.append(span)
            continue
        first, last, _ = found[-1]
        if found[-1].is_dense and span.is_dense:
            last = max(last, span.last)
            found[-1] = Outline(first, last, last - first + 1)
        elif span.first > last:
            found.append(span)
        else:
            return None
    if not found:
        return NOTHING
    return Outline(found[0].first, found[-1].last, sum(each.entries for each in found))
