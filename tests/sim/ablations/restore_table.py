"""Safeguards of a metadata store that is put back from a backup, or loses its counter."""

from __future__ import annotations

from typing import Final

from tests.sim.ablations import restores
from tests.sim.ablations.patch import Ablation

RESTORE: Final = (
    Ablation(
        "recovery of an older ledger asks every bookie",
        "restored",
        restores.ask_the_recorded_ensemble,
        "",
        restores.churn,
    ),
    Ablation(
        "K − Qa + 1 denials end an older ledger",
        "restored",
        restores.count_denials_of_one_ensemble,
        "",
        restores.churn,
    ),
    Ablation(
        "an adoption lifts the counter", "restored", restores.adopt_without_lifting_the_counter
    ),
    Ablation(
        "a restored store withholds ids", "restored", restores.give_ids_out_before_the_adoption
    ),
    Ablation(
        "nothing is collected before the adoption", "restored", restores.collect_before_the_adoption
    ),
    Ablation(
        "no version outlives a restore",
        "restored",
        restores.take_versions_of_before_for_versions_of_now,
    ),
    Ablation("a lost counter is not replaced", "restored", restores.begin_a_new_counter),
)
