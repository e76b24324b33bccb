"""Safeguards of bookies that take the places of lost ones."""

from __future__ import annotations

from typing import Final

from tests.sim.ablations import healings
from tests.sim.ablations.patch import Ablation

HEALING: Final = (
    Ablation(
        "a place is taken after its copies", "healing", healings.take_the_place_before_the_copies
    ),
    Ablation(
        "every entry of a place is looked for",
        "healing",
        healings.look_for_the_first_and_the_last_entry,
    ),
    Ablation(
        "an entry that no bookie gives is not absent",
        "healing",
        healings.take_what_nobody_gives_for_absent,
    ),
    Ablation("nothing beyond the end is copied", "healing", healings.owe_entries_beyond_the_end),
    Ablation(
        "limbo lasts until the place is taken", "healing", healings.forget_the_places_asked_for
    ),
    Ablation(
        "the newest record decides on a place",
        "healing",
        healings.write_the_record_that_was_read_before_the_copies,
    ),
    Ablation(
        "a place is taken behind a durable fence",
        "healing",
        healings.enter_the_record_before_the_fence_is_durable,
        "",
        healings.storms,
    ),
    Ablation(
        "a ledger to be copied is fenced", "healing", healings.leave_an_ordered_ledger_unfenced
    ),
    Ablation(
        "the key of a ledger to be copied is known",
        "healing",
        healings.learn_no_key_of_an_ordered_ledger,
    ),
)
