"""Safeguards of a log: leaders, readers, offloaded segments, deletion."""

from __future__ import annotations

from typing import Final

from tests.sim.ablations import (
    clocks,
    deletions,
    logs,
    mixes,
    offloads,
    resting,
    writing,
)
from tests.sim.ablations.patch import WITHOUT_END, Ablation

LOG: Final = (
    Ablation("a take-over recovers two ledgers", "log", logs.fence_only_the_last_ledger),
    Ablation("a segment is drained before the next", "log", logs.write_ahead_of_the_drain),
    Ablation("a take-over is a compare-and-set", "log", logs.install_over_anybody),
    Ablation("a roll is a compare-and-set", "log", logs.roll_over_a_newer_leader),
    Ablation("a reader leaves a segment when CLOSED", "log", writing.take_recovery_for_the_end),
    Ablation(
        "an unknown change is read again", "log", logs.take_unknown_for_failed, "", mixes.expiry
    ),
    Ablation("a new leader knows the records that were sent", "log", logs.forget_producers),
    Ablation("a full manifest is not rolled", "log", logs.roll_full_manifests),
    Ablation("a gap needs the whole write set", "gap", logs.take_what_is_away_for_lost),
    Ablation("a forgotten producer is refused", "log", logs.accept_forgotten_producers),
    Ablation("a forgotten job is refused", "election", logs.accept_forgotten_jobs),
    Ablation("age needs a second clock", "log", clocks.believe_the_wall_clock),
    Ablation(
        "age needs the wall clock, too",
        "log",
        clocks.believe_the_clock_of_the_store,
        "rare: two machines lead, and a clock jumps between; tests/log/manifest/test_ages.py",
    ),
    Ablation(
        "a span is lost when a clock goes back",
        "log",
        clocks.keep_the_reading_of_a_clock_that_was_wrong,
    ),
    Ablation(
        "a mark waits for the count",
        "log",
        clocks.mark_before_the_time_is_counted,
        "rare: two machines lead, and a clock jumps between; tests/log/manifest/test_ages.py",
    ),
    Ablation(
        "an impossible time is refused",
        "log",
        clocks.take_every_time_for_right,
        "rare: a reader asks for such a moment; tests/log/reading/test_times.py has it",
    ),
    Ablation(
        "times do not go back in a segment",
        "log",
        clocks.begin_a_segment_at_any_time,
        "rare: a reader asks for such a moment; tests/log/reading/test_times.py has it",
    ),
    Ablation("retention waits for cursors", "log", logs.forget_cursors),
    Ablation("a conditional append checks the tail", "log", logs.append_at_any_tail),
    Ablation("a seal is in the manifest", "log", logs.say_that_a_log_is_sealed),
    Ablation("a segment is sealed when closed", "log", logs.seal_before_the_ledger_is_closed),
    Ablation("the janitor spares this epoch's ledgers", "log", logs.sweep_young_ledgers),
    Ablation(
        "a spare is kept while it may be listed",
        "log",
        logs.delete_a_spare_that_may_be_listed,
        "rare: a lost answer and an outage must meet in a roll; "
        "tests/log/leader/test_roller.py has both",
        mixes.expiry,
    ),
    Ablation("a trim changes the manifest first", "log", logs.delete_before_the_manifest_says_so),
    Ablation(
        "a search skips nothing that comes meanwhile",
        "log",
        logs.look_at_each_segment_as_it_is_then,
        "",
        mixes.slow,
    ),
    Ablation(
        "a reader is given nothing older than it asked for",
        "log",
        logs.give_what_comes_next_at_the_end,
    ),
    Ablation(
        "the end is where it was when the reader was made",
        "log",
        logs.look_for_the_end_as_reading_begins,
    ),
    Ablation("a snapshot has no holes", "log", logs.count_what_follows_an_open_segment),
    Ablation(
        "a linearizable tail asks for the acknowledged end",
        "log",
        logs.take_what_was_announced_for_the_end,
    ),
    Ablation("a file is read back before it is named", "log", offloads.name_a_file_unread),
    Ablation("a sweep spares attempts under way", "log", offloads.sweep_attempts_under_way),
    Ablation("a segment moves once", "log", offloads.move_what_was_moved),
    Ablation("a name in a record proves no file", "log", offloads.believe_any_name),
    Ablation("a tier is proven before it is recorded", "log", offloads.record_a_place_unseen),
    Ablation(
        "attempts lie apart until they are named", "log", offloads.write_attempts_among_the_files
    ),
    Ablation("a reader looks among the attempts", "log", offloads.look_for_files_in_one_place),
    Ablation(
        "a log rests with nothing under way",
        "log",
        resting.rest_with_entries_under_way,
        shows=WITHOUT_END,  # no part is left to answer its callers
    ),
    Ablation("a log at rest keeps its producers", "log", resting.forget_producers_at_rest),
    Ablation(
        "a ledger rests when all bookies have it",
        "log",
        resting.rest_before_all_have_it,
        "redundant: an ack quorum has its entries, and that is what is promised; "
        "tests/ledger/test_resting.py has it",
    ),
    Ablation(
        "the patrol looks after logs at rest",
        "log",
        resting.look_after_no_sleeper,
        "redundant: the next call meets the fence of another leader, and rolls and options wait; "
        "tests/log/leader/test_patrol.py has it",
    ),
    Ablation("a log takes its files with it", "deletion", offloads.leave_the_files),
    Ablation("a log goes ledgers first", "deletion", deletions.delete_the_record_first),
    Ablation("a log is fenced before it goes", "deletion", deletions.delete_without_an_end),
    Ablation("a leader knows its own log", "deletion", deletions.lead_the_next_log_of_the_name),
    Ablation("a reader knows its own log", "deletion", deletions.read_on_in_the_next_log),
    Ablation("a deletion knows its own log", "deletion", deletions.delete_whatever_is_there),
    Ablation(
        "a log is created once",
        "deletion",
        deletions.create_a_log_twice,
        "rare: a log must be deleted between its creation and the creator's next look; "
        "tests/log/maintenance/test_deletion.py has it",
        mixes.expiry,
    ),
)
