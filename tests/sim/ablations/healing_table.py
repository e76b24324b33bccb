"""Safeguards of auditors, and of bookies that take places and give copies up."""

from __future__ import annotations

from typing import Final

from tests.sim.ablations import brakes, healings, spreads, superfluous
from tests.sim.ablations.patch import WITHOUT_END, Ablation

HEALING: Final = (
    Ablation(
        "a place is taken after its copies", "healing", healings.take_the_place_before_the_copies
    ),
    Ablation(
        "a cancelled flush forgets nothing",
        "healing",
        healings.forget_what_a_cancelled_flush_was_to_write,
        "a bookie seldom has a fence that no flush has written when a mender flushes; "
        "tests/storage/maintenance/test_cancelled_flush.py has it",
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
    Ablation(
        "nothing beyond the end is copied",
        "healing",
        healings.owe_entries_beyond_the_end,
        shows=WITHOUT_END,  # entries that exist nowhere are looked for
    ),
    Ablation(
        "limbo lasts until the place is taken", "healing", healings.forget_the_places_asked_for
    ),
    Ablation(
        "the newest record decides on a place",
        "healing",
        healings.write_the_record_that_was_read_before_the_copies,
    ),
    Ablation(
        "requests change by compare-and-set",
        "healing",
        healings.change_requests_blindly,
        "no process that asks is trusted, so a lost request only costs time; "
        "tests/repair/test_orders.py has it",
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
    Ablation(
        "a place keeps the domains of acks",
        "healed ledger",
        healings.give_places_away_from_domains,
        "",
        healings.zones,
    ),
    Ablation("an open ledger waits for its writer", "healing", healings.end_what_is_being_written),
    Ablation(
        "copies are given up by the lists of all", "healing", superfluous.believe_the_record_alone
    ),
    Ablation(
        "a bookie without an answer proves nothing",
        "healing",
        superfluous.ask_the_bookies_that_answer,
        "",
        healings.storms,
    ),
    Ablation("only a closed ledger is given up", "healing", superfluous.give_up_what_is_open),
    Ablation("no proof outruns an order", "healing", superfluous.let_a_proof_outrun_an_order),
    Ablation(
        "the id of what is given up is kept", "healing", superfluous.keep_no_id_of_what_is_given_up
    ),
    Ablation(
        "a ledger is owned before its place is taken",
        "healing",
        superfluous.take_the_place_of_a_disowned_ledger,
    ),
    Ablation(
        "a ledger is owned again on the disk", "healing", superfluous.own_a_ledger_in_memory_only
    ),
    Ablation(
        "a proof ends the changes before it",
        "healing",
        superfluous.prove_without_a_write,
        "rare: a request of a dead process must come after the proof; "
        "tests/repair/test_superfluous.py has it",
    ),
    Ablation(
        "a copy is given up at a second look",
        "healing",
        superfluous.give_up_at_first_sight,
        "saves proofs only, which are safe alone; "
        "tests/storage/maintenance/test_disowning.py has the hour",
    ),
    Ablation(
        "an open request keeps the copies",
        "healing",
        superfluous.believe_that_no_place_is_asked,
        "saves work only: the proof is outrun by no order; tests/repair/test_superfluous.py has it",
    ),
    Ablation("a move for spread raises the measure", "healing", spreads.move_without_a_gain),
    Ablation("bookies settle before moves for spread", "healing", spreads.never_wait),
    Ablation("closed ledgers are swept", "healing", spreads.sweep_nothing),
    Ablation("a pause and mass loss stop auditors", "healing", brakes.go_on_without_brakes),
    Ablation("a bookie is lost after a delay", "healing", brakes.begin_at_once),
    Ablation("a bookie that is away is not missing", "healing", brakes.heed_no_away),
    Ablation("a bookie that was back begins anew", "healing", brakes.never_begin_anew),
    Ablation(
        "a read-only bookie is not lost",
        "healing",
        brakes.take_read_only_for_lost,
        "",
        brakes.full_disks,
    ),
    Ablation(
        "a slow look counts for the bookie",
        "healing",
        brakes.count_from_the_beginning_of_a_look,
        "a look is seldom long here; `tests/healing/test_brakes.py` has one of an hour",
        brakes.slow_stores,
    ),
)
