"""Edits of healing: outlines of ledgers, the sweep that compares them, and copies for places."""

from __future__ import annotations

from typing import Final

from tests.mutations.edit import Edit

OUTLINE: Final = "quire/outline.py"
JUDGED: Final = "quire/ledger/outlines.py"
HOLES: Final = ("tests/healing/test_holes.py",)

EDITS: Final = (
    Edit(
        "first and last entry prove a ledger whole",
        JUDGED,
        "holds.last < owes.last or holds.entries < owes.entries:\n"
        "        return Verdict.DIFFERS\n    if holds.is_dense:\n",
        "holds.last < owes.last:\n        return Verdict.DIFFERS\n    if holds:\n",
        HOLES,
    ),
    Edit(
        "a count of entries proves a ledger whole",
        JUDGED,
        "    return Verdict.LIKELY if holds",
        "    return Verdict.WHOLE if holds",
        HOLES,
    ),
    Edit(
        "a sweep lists the ledgers of bookies that tell no outlines",
        "quire/healing/holes.py",
        "elif verdict is Verdict.DIFFERS or",
        "elif verdict >= Verdict.UNTOLD or",
        HOLES,
    ),
    Edit(
        "spans with gaps that overlap are added up",
        OUTLINE,
        "        else:\n            return None\n",
        "        else:\n            found.append(span)\n",
        ("tests/test_outline.py",),
    ),
    Edit(
        "a chunk with gaps counts as one without",
        "quire/storage/entries/entry_log.py",
        "            yield Outline(first, last, entries)\n",
        "            yield Outline(first, last, last - first + 1)\n",
        ("tests/storage/entries/test_listing.py",),
    ),
    Edit(
        "a bookie counts its entries of a ledger that a stranger began",
        "quire/storage/maintenance/self_repair.py",
        "        if not self._storage.state(ledger).is_of(owed.key_check):\n",
        "        if False:\n",
        ("tests/storage/maintenance/test_places_and_keys.py",),
    ),
)
