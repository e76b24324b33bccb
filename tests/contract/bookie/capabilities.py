"""What some bookies can do and others cannot: bookies of other systems lack some of it."""

from __future__ import annotations

import enum


class BookieCapability(enum.Enum):
    """A promise beyond the law of the port."""

    DENIES_RANGES = "denies ranges"
    """A read of many entries that are all absent denies all of them at once."""
    NAMES_FENCES = "names fences"
    """Its tail says whether the ledger is fenced, and a wait ends with a fence."""
    CHECKS_SYNC = "checks syncs"
    """A sync with a wrong key, or of a fenced ledger, is refused."""
    TELLS_FACTS = "tells facts"
    """It counts its ledgers and those in limbo, and knows the highest id."""
    KEEPS_IDS = "keeps ids"
    """A ledger that was dropped leaves its id: retired, or disowned."""
    REFUSES_DROPPED = "refuses dropped"
    """A ledger that was dropped takes no entries again, and none of them is denied."""
    KEEPS_ENTRIES = "keeps entries"
    """An entry that it holds is replaced by none with another payload (B12, B16)."""
    NEVER_REPLACES = "never replaces"
    """An entry that it holds stays as it is, whatever the refusal of another is called."""
    LISTS_LEDGERS = "lists ledgers"
    """It lists the ledgers that it holds entries of."""
    TELLS_OUTLINES = "tells outlines"
    """It tells first and last entry of a ledger, and how many, of many ledgers at once."""


EVERYTHING = frozenset(BookieCapability)
