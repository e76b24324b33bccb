"""At which bounds the specification is checked, and what each removed safeguard breaks there.

The numbers are those of the twin; TLC finds the same (`make tlc`). A changed number means that the
specification changed: change both forms, and say why in the commit.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.spec.checker import Outcome
from tests.spec.ledger import Bounds


class Passing(NamedTuple):
    """Bounds at which every promise holds, and how many states there are."""

    bounds: Bounds
    outcome: Outcome


class Removed(NamedTuple):
    """A safeguard, bounds at which its loss shows, and what the checker then finds."""

    safeguard: str
    bounds: Bounds
    outcome: Outcome
    why: str


PASSING: Final = {
    "two recoveries": Passing(Bounds(recoverers=2), Outcome(None, 21, 27_950, 5_432)),
    "an ensemble change": Passing(Bounds(bookies=4, changes=1), Outcome(None, 19, 121_802, 34_983)),
    "striped": Passing(Bounds(write_quorum=2, recoverers=2), Outcome(None, 20, 3_574, 921)),
    "striped over four": Passing(
        Bounds(bookies=4, ensemble=4, write_quorum=3), Outcome(None, 16, 3_120, 1_050)
    ),
    "deleted, and the store forgets": Passing(
        Bounds(can_delete=True, can_forget=True), Outcome(None, 34, 455_136, 162_035)
    ),
    "deleted, and the store revives": Passing(
        Bounds(can_delete=True, can_revive=True), Outcome(None, 26, 28_461, 10_227)
    ),
    "deleted, and the creation is sent again": Passing(
        Bounds(can_delete=True, can_resend=True), Outcome(None, 20, 8_118, 3_013)
    ),
}

THOROUGH: Final = {
    "two entries, two recoveries": Passing(
        Bounds(recoverers=2, entries=2), Outcome(None, 33, 1_209_423, 204_536)
    ),
    "an ensemble change, and the store revives": Passing(
        Bounds(bookies=4, changes=1, can_revive=True), Outcome(None, 24, 1_951_092, 486_059)
    ),
    "two recoveries, and the creation is sent again": Passing(
        Bounds(recoverers=2, can_delete=True, can_resend=True),
        Outcome(None, 26, 113_806, 25_868),
    ),
}
"""Larger bounds, for `python -m tests.spec`; too slow for every test run."""

DELETED: Final = Bounds(can_delete=True)
RESENT: Final = Bounds(can_delete=True, can_resend=True)
FORGOTTEN: Final = Bounds(can_forget=True)
CHANGED: Final = Bounds(bookies=4, changes=1)

REMOVED: Final = (
    Removed("ReadsFence", Bounds(), Outcome("L1", 13, 1_999, 763), "an add overtakes a denial"),
    Removed("FenceDurable", Bounds(), Outcome("L1", 14, 7_198, 1_628), "a restart lifts a fence"),
    Removed("RetiresIds", DELETED, Outcome("L1", 15, 2_808, 984), "collection lifts a fence"),
    Removed(
        "RetiredIsNotAbsent",
        Bounds(can_delete=True, can_revive=True),
        Outcome("L1", 16, 18_717, 7_010),
        "a revived ledger is closed as empty",
    ),
    Removed("DeleteCloses", DELETED, Outcome("L1", 7, 225, 124), "a deleted ledger confirms"),
    Removed(
        "ResendsUnanswered",
        RESENT,
        Outcome("L2", 11, 2_267, 1_132),
        "a record comes back, and the bookies dropped its entries",
    ),
    Removed("DropsOlder", RESENT, Outcome("L2", 10, 2_992, 1_304), "a ledger in use is dropped"),
    Removed("CreatesAdopted", FORGOTTEN, Outcome("L4", 12, 4_867, 2_501), "an id is given twice"),
    Removed("AdoptSkips", FORGOTTEN, Outcome("L4", 12, 2_762, 1_198), "an id is given twice"),
    Removed(
        "AsksAll",
        Bounds(bookies=4, changes=1, can_revive=True),
        Outcome("L3", 14, 61_244, 25_404),
        "recovery does not know of later ensembles",
    ),
    Removed("CasFirst", CHANGED, Outcome("L3", 8, 1_314, 647), "copies where no record points"),
    Removed("ReplacedForgotten", CHANGED, Outcome("L3", 8, 875, 451), "a replaced copy counts"),
    Removed(
        "AbsentIsCovered", Bounds(), Outcome("L1", 12, 1_094, 450), "one denial proves nothing"
    ),
    Removed("WritesBack", Bounds(), Outcome("L3", 11, 875, 388), "an entry stays with one copy"),
    Removed(
        "ChangesInMemory",
        Bounds(bookies=4, recoverers=2, changes=1),
        Outcome("L3", 15, 195_240, 63_565),
        "a second recovery asks bookies that never had the entries",
    ),
    Removed("CloseIsCas", Bounds(recoverers=2), Outcome("M1", 18, 22_830, 4_898), "two ends"),
)

REDUNDANT: Final = {
    "FenceIsCovered": (CHANGED, Outcome(None, 19, 210_980, 51_783)),
    "WaitsForAdopt": (FORGOTTEN, Outcome(None, 26, 145_974, 49_789)),
}
"""Safeguards that others cover: every read of a recovery fences, and no id is given out before the
adoption. They stay in the code: the first saves a recovery from reading beside a living writer, the
second protects from clients that do not look at the incarnation."""
