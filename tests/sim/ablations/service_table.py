"""Safeguards of elections and replicated services."""

from __future__ import annotations

from typing import Final

from tests.sim.ablations import (
    elections,
    mixes,
    services,
)
from tests.sim.ablations.patch import WITHOUT_END, Ablation

SERVICE: Final = (
    Ablation(
        "a term is a compare-and-set",
        "election",
        elections.take_office_over_anybody,
        "",
        mixes.away,
    ),
    Ablation(
        "a leader knows its own term", "election", elections.forget_the_own_term, "", mixes.expiry
    ),
    Ablation("the successor that was named follows", "election", elections.pass_the_successor_over),
    Ablation(
        "a successor waits for the leader to go",
        "election",
        elections.follow_before_the_leader_is_gone,
    ),
    Ablation(
        "only the leader names a successor",
        "election",
        elections.name_a_successor_over_anybody,
        "",
        mixes.away,
    ),
    Ablation("a log that is handed over is closed", "election", elections.leave_the_log_open),
    Ablation(
        "an adoption ends the leader before it", "election", elections.adopt_beside_the_leader
    ),
    Ablation("an adoption is a compare-and-set", "election", elections.adopt_over_a_newer_leader),
    Ablation(
        "a number of a stream means one batch", "election", elections.take_a_number_for_a_batch
    ),
    Ablation(
        "producers outlive an adoption", "election", elections.forget_producers_at_an_adoption
    ),
    Ablation(
        "a command is in the log before it is applied",
        "service",
        services.apply_before_it_is_in_the_log,
    ),
    Ablation(
        "a primary has read the log to its end",
        "service",
        services.lead_without_reading_on,
        shows=WITHOUT_END,  # a replica fails that carries out anything but the next command
    ),
    Ablation(
        "a barrier is a record of the log", "service", services.read_what_is_there, "", mixes.away
    ),
    Ablation(
        "a snapshot is there before the log is trimmed",
        "service",
        services.trim_before_the_snapshot,
    ),
    Ablation(
        "retention keeps the records after a snapshot",
        "service",
        services.retain_without_the_snapshot,
    ),
    Ablation(
        "a replica ends with the calls that wait for its end",
        "service",
        services.close_for_who_waits_only,
        "",
        mixes.signals,
    ),
    Ablation(
        "a candidate takes office while its session lasts",
        "election",
        elections.take_office_after_the_session,
        "",
        mixes.away,
    ),
    Ablation(
        "a snapshot that was overtaken is not installed", "service", services.install_any_snapshot
    ),
    Ablation(
        "a snapshot goes after the next one is named",
        "service",
        services.delete_the_snapshot_before,
    ),
    Ablation(
        "a sweep spares snapshots under way",
        "service",
        services.sweep_what_no_record_named_at_first,
    ),
    Ablation(
        "a replica applies the next record only",
        "service",
        services.apply_any_record,
        "redundant: a reader is asked for the next record and gives no other; "
        "tests/service/test_order.py has it",
    ),
)
