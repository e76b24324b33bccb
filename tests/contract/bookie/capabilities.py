"""What some bookies can do and others cannot: bookies of other systems lack some of it."""

from __future__ import annotations

import enum


class BookieCapability(enum.Enum):
    """A promise beyond the law of the port."""

    DENIES_RANGES = "denies ranges"
    """A read of many entries that are all absent denies all of them at once."""
    KEEPS_IDS = "keeps ids"
    """A ledger that was dropped leaves its id: retired, or disowned."""


EVERYTHING = frozenset(BookieCapability)
