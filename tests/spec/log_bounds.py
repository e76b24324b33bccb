"""At which bounds the log's specification is checked, and what each removed safeguard breaks there.

The numbers are those of the twin; TLC finds the same (`make tlc`). A changed number means that the
specification changed: change both forms, and say why in the commit.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.spec.checker import Outcome
from tests.spec.log import LogBounds


class Passing(NamedTuple):
    """Bounds at which every promise holds, and how many states there are."""

    bounds: LogBounds
    outcome: Outcome


class Removed(NamedTuple):
    """A safeguard, bounds at which its loss shows, and what the checker then finds."""

    safeguard: str
    bounds: LogBounds
    outcome: Outcome
    why: str


PASSING: Final = {
    "rolls": Passing(LogBounds(rolls=True, records=2), Outcome(None, 25, 25_702, 10_232)),
    "an unknown outcome": Passing(
        LogBounds(unknown=1, rolls=True), Outcome(None, 24, 20_855, 8_926)
    ),
    "broken ledgers": Passing(
        LogBounds(breaks=True, rolls=True), Outcome(None, 25, 31_874, 12_634)
    ),
    "trimmed and collected": Passing(
        LogBounds(trims=True, collects=True, rolls=True), Outcome(None, 27, 26_246, 10_154)
    ),
    "swept": Passing(LogBounds(sweeps=True, rolls=True), Outcome(None, 23, 7_970, 3_480)),
    "deleted": Passing(LogBounds(unknown=1, erasers=1), Outcome(None, 23, 12_715, 5_946)),
    "ingested": Passing(
        LogBounds(leaders=1, unknown=1, ingests=True, trims=True),
        Outcome(None, 19, 3_002, 1_296),
    ),
    "the store forgets": Passing(
        LogBounds(leaves=True, forgets=True), Outcome(None, 22, 3_346, 1_479)
    ),
}

THOROUGH: Final = {
    "three leaders": Passing(
        LogBounds(leaders=3, ids=4, unknown=1, trims=True), Outcome(None, 30, 282_326, 105_011)
    ),
    "two deletions": Passing(
        LogBounds(erasers=2, collects=True), Outcome(None, 30, 192_008, 55_322)
    ),
    "broken ledgers and a takeover": Passing(
        LogBounds(breaks=True, rolls=True, records=2), Outcome(None, 29, 161_912, 58_166)
    ),
    "ingested beside two leaders": Passing(
        LogBounds(unknown=1, ingests=True, trims=True), Outcome(None, 28, 414_940, 140_699)
    ),
    "four ledgers, swept, an unknown outcome": Passing(
        LogBounds(ids=4, unknown=1, rolls=True, sweeps=True), Outcome(None, 30, 174_447, 64_306)
    ),
}
"""Larger bounds, for `python -m tests.spec`; too slow for every test run."""

ROLLED: Final = LogBounds(rolls=True)
DELETED: Final = LogBounds(erasers=1)
UNSETTLED: Final = LogBounds(unknown=1, erasers=1)

REMOVED: Final = (
    Removed("TakeOverIsCas", LogBounds(), Outcome("D2", 8, 59, 49), "another log takes its place"),
    Removed("EpochGrows", LogBounds(), Outcome("EP", 8, 52, 43), "two leaders have one epoch"),
    Removed(
        "RecoversAll",
        LogBounds(ids=4, rolls=True),
        Outcome("C3", 12, 1_101, 646),
        "a segment is sealed and its ledger is open",
    ),
    Removed(
        "UnknownIsRead",
        LogBounds(unknown=1),
        Outcome("C1", 6, 25, 22),
        "the takeover lands, its ledger is deleted",
    ),
    Removed(
        "CreatesOnce",
        UNSETTLED,
        Outcome("C1", 11, 1_331, 780),
        "a creation that landed and was deleted is repeated",
    ),
    Removed(
        "ReadSettles",
        UNSETTLED,
        Outcome("C1", 14, 4_183, 2_253),
        "a creation lands after the next log of the name was deleted",
    ),
    Removed(
        "LeadsOwn",
        LogBounds(ids=4, erasers=1, rolls=True),
        Outcome("C4", 14, 15_035, 6_785),
        "a leader rolls the next log of the name",
    ),
    Removed("RollIsMine", ROLLED, Outcome("C4", 10, 398, 252), "a deposed leader rolls"),
    Removed(
        "SpareKept",
        LogBounds(unknown=1, rolls=True),
        Outcome("C1", 8, 163, 126),
        "the roll lands, its ledger is deleted",
    ),
    Removed(
        "PrevSealedFirst",
        LogBounds(leaders=1, rolls=True),
        Outcome("C3", 9, 25, 21),
        "three open segments",
    ),
    Removed(
        "Drains",
        LogBounds(rolls=True, records=2),
        Outcome("C6", 12, 2_018, 1_093),
        "a hole in the middle",
    ),
    Removed(
        "SealsClosed",
        LogBounds(leaders=1, rolls=True),
        Outcome("C3", 10, 37, 29),
        "a segment is sealed and its ledger is open",
    ),
    Removed(
        "ResendsMissing",
        LogBounds(leaders=1, breaks=True, rolls=True),
        Outcome("C6", 11, 133, 90),
        "a record is there twice",
    ),
    Removed(
        "TrimsFirst", LogBounds(trims=True), Outcome("C1", 11, 160, 114), "a listed ledger goes"
    ),
    Removed(
        "TrimsPrefix",
        LogBounds(ids=4, trims=True, rolls=True),
        Outcome("KEPT", 12, 1_121, 655),
        "a record is gone from the middle",
    ),
    Removed(
        "TrimsOwn",
        LogBounds(leaves=True, trims=True, erasers=1),
        Outcome("TR", 23, 42_737, 18_009),
        "the next log of the name is trimmed",
    ),
    Removed(
        "SparesEpoch",
        LogBounds(sweeps=True),
        Outcome("C1", 9, 86, 67),
        "a ledger is deleted before its leader lists it",
    ),
    Removed(
        "RetiresIds",
        LogBounds(trims=True, collects=True),
        Outcome("H8", 12, 295, 184),
        "a deposed leader confirms after the collection",
    ),
    Removed(
        "IdsOnce", LogBounds(forgets=True), Outcome("L4", 10, 176, 105), "a log inherits records"
    ),
    Removed(
        "ErasesFenced",
        LogBounds(erasers=1, collects=True),
        Outcome("H8", 9, 228, 151),
        "a deleted log confirms",
    ),
    Removed("LedgersFirst", DELETED, Outcome("D2", 9, 185, 123), "records outlive their log"),
    Removed(
        "ErasesOwn",
        LogBounds(erasers=2),
        Outcome("D2", 15, 7_111, 3_373),
        "the next log of the name loses its record",
    ),
    Removed(
        "IngestIsCas",
        LogBounds(ingests=True),
        Outcome("KEPT", 13, 5_620, 2_561),
        "a takeover is undone",
    ),
    Removed(
        "IngestsOnce",
        LogBounds(leaders=1, unknown=1, ingests=True),
        Outcome("C4", 12, 571, 322),
        "a part is there twice",
    ),
    Removed(
        "DropIsCas",
        LogBounds(leaders=1, ingests=True),
        Outcome("C1", 10, 153, 88),
        "a part is dropped while it is ingested",
    ),
)
