"""The table of ablations: which safeguard, in which workload, and why one may go unnoticed."""

from __future__ import annotations

from typing import Final

from tests.sim.ablations import (
    bookies,
    clocks,
    deletions,
    disks,
    elections,
    logs,
    offloads,
    recovery,
    retirement,
    services,
    streams,
    writing,
)
from tests.sim.ablations.patch import Ablation
from tests.sim.ablations.restore_table import RESTORE
from tests.sim.faults import STOP_CLIENT, FaultMix, Theme


def _race(mix: FaultMix) -> None:
    """Recoverers and bad lines, much of both."""
    mix.theme = Theme.RACE
    mix.rates = {"swizzle": 4.0, "cut": 1.0}
    mix.weather.watch_late = 0.7
    mix.weather.watch_lost = 0.0
    mix.mending = 0.05
    mix.conditions.slow, mix.conditions.slow_mean = 0.1, 0.05


def _silence(mix: FaultMix) -> None:
    """Requests that are lost or slow, clogged lines, writers that hear late: nobody crashes."""
    mix.theme = Theme.RACE
    mix.rates = {"swizzle": 2.0}
    mix.weather.watch_late, mix.weather.watch_lost = 0.9, 0.0
    mix.weather.unavailable = mix.weather.unknown = 0.0
    mix.conditions.slow, mix.conditions.slow_mean = 0.25, 0.06
    mix.conditions.loss, mix.conditions.cancellation = 0.08, 1.0
    mix.mending = 0.05
    mix.blows = {"clog": 3.0, "rival": 1.0}


def _churn(mix: FaultMix) -> None:
    """Bookies that go away all the time, and writers that hear late of everything."""
    mix.theme = Theme.RACE
    mix.rates = {"crash": 4.0, "break streams": 3.0, "swizzle": 2.0}
    mix.weather.watch_late = 0.8
    mix.mending = 0.05


def _rot(mix: FaultMix) -> None:
    """Damaged disks whose bookies restart."""
    mix.theme = Theme.DAMAGE
    mix.rates = {"bit rot": 8.0, "read error": 2.0, "crash": 2.0}
    mix.mending = 0.1


def _cut_short(mix: FaultMix) -> None:
    """Files that are shorter when their bookie is back."""
    mix.theme = Theme.DAMAGE
    mix.rates = {"cut short": 4.0}
    mix.mending = 0.05


def _loss(mix: FaultMix) -> None:
    """A bookie that loses files again and again while roles change hands, and is repaired."""
    mix.theme = Theme.RACE
    mix.rates = {"files lost": 4.0, "swizzle": 1.0}
    mix.weather.watch_late, mix.weather.watch_lost = 0.8, 0.0
    mix.mending = 0.05


def _power(mix: FaultMix) -> None:
    """Power cuts, and little else."""
    mix.rates = {"power cut": 5.0}
    mix.mending = 0.1


def _forced(mix: FaultMix) -> None:
    """Bookies that forget between an answer and the force that is to make it durable."""
    mix.rates = {"power cut": 0.5}
    mix.disk_latency = 0.0002
    mix.deferred_sync = 1.0


def _starved(mix: FaultMix) -> None:
    """Bookies that are away longer than writers wait."""
    mix.rates = {"crash": 4.0, "hung disk": 3.0}
    mix.mending = 3.0


def _old_rot(mix: FaultMix) -> None:
    """Journals that rot, and are replayed."""
    mix.theme = Theme.DAMAGE
    mix.rates = {"bit rot": 12.0, "crash": 5.0}
    mix.mending = 0.05


def _expiry(mix: FaultMix) -> None:
    """A metadata store that keeps clients in doubt."""
    mix.weather.unknown = 0.3


def _away(mix: FaultMix) -> None:
    """Candidates that are paused past their sessions, or cut off from the store."""
    mix.rates = {"pause client": 6.0, "expire session": 2.0, "isolate": 1.0}
    mix.mending = 0.8


def _slow(mix: FaultMix) -> None:
    """Messages that take so long that a log rolls meanwhile."""
    mix.conditions.slow, mix.conditions.slow_mean = 0.2, 0.2


def _full(mix: FaultMix) -> None:
    """Disks that fill up while roles change hands, and lose power."""
    mix.theme = Theme.RACE
    mix.rates = {"disk full": 4.0, "power cut": 2.0, "swizzle": 1.0}
    mix.weather.watch_late, mix.weather.watch_lost = 0.8, 0.0
    mix.mending = 0.1


def _failing_syncs(mix: FaultMix) -> None:
    """Syncs that fail, and power cuts that show what they lost."""
    mix.rates = {"sync error": 6.0, "power cut": 3.0}
    mix.mending = 0.2


def _signals(mix: FaultMix) -> None:
    """Clients that are told to stop, again and again."""
    mix.rates = {STOP_CLIENT: 4.0}


ABLATIONS: Final = (
    Ablation("a bookie refuses adds to a fenced ledger", "ledger", bookies.ignore_fence),
    Ablation(
        "a fence is durable before it is answered",
        "ledger",
        bookies.answer_before_fence_is_durable,
    ),
    Ablation("an entry is never replaced", "ledger", bookies.take_other_bytes),
    Ablation("no ledger is begun before its id", "ledger", bookies.begin_any_ledger),
    Ablation("a fence survives a restart", "ledger", bookies.forget_fences_at_restart),
    Ablation("an add is durable before it is acked", "ledger", bookies.ack_before_sync),
    Ablation(
        "a stream acknowledges only runs that are done",
        "ledger",
        streams.acknowledge_what_is_under_way,
    ),
    Ablation("a run that was refused is not acked", "ledger", streams.take_refusals_for_acks),
    Ablation("a stream that breaks acks nothing", "ledger", streams.take_a_break_for_an_ack),
    Ablation("a stream that breaks fails what waits", "ledger", streams.forget_what_waits),
    Ablation("directories are synced", "ledger", bookies.never_sync_directories),
    Ablation(
        "journal records have checksums",
        "ledger",
        bookies.replay_without_checksums,
        "",
        _old_rot,
    ),
    Ablation(
        "journal records are contiguous",
        "ledger",
        bookies.replay_past_gaps,
        "redundant: replay stops at the first bad record, and a segment's identity is new in each "
        "of its lives, so no older record can stand where the next one is expected",
        _power,
    ),
    Ablation(
        "a damaged journal stops the start", "ledger", bookies.start_on_a_damaged_journal, "", _rot
    ),
    Ablation(
        "a journal that was cut stops the start",
        "ledger",
        bookies.start_on_a_journal_that_was_cut,
        "",
        _cut_short,
    ),
    Ablation("damage is not absence", "ledger", bookies.take_damage_for_absence, "", _rot),
    Ablation(
        "an error of the metadata store deletes nothing", "ledger", bookies.delete_upon_an_error
    ),
    Ablation(
        "files go after the checkpoint that lists them", "log", bookies.remove_before_the_checkpoint
    ),
    Ablation(
        "compaction keeps what is known of ledgers",
        "ledger",
        bookies.compact_without_states,
        "rare: a fence that is forgotten must be missed before the ledger is closed; "
        "tests/storage/test_compaction.py has it",
    ),
    Ablation("limbo answers unknown", "ledger", bookies.deny_in_limbo, "", _loss),
    Ablation(
        "a repair fences what it doubts",
        "ledger",
        bookies.repair_without_fences,
        "rare: mostly the others of a write set stop the old writer before its bookie is repaired; "
        "tests/storage/test_salvage.py has it",
        _loss,
    ),
    Ablation(
        "a repair doubts ledgers that do not name the bookie",
        "ledger",
        bookies.doubt_only_what_is_named,
        "rare: see above; tests/storage/test_salvage.py has it",
        _loss,
    ),
    Ablation("a ledger leaves limbo when whole", "ledger", bookies.leave_limbo_at_once, "", _loss),
    Ablation(
        "a damaged chunk is forgotten when its entries are back",
        "ledger",
        bookies.forget_damage_at_once,
        "",
        _rot,
    ),
    Ablation("a ledger has one key", "ledger", bookies.take_any_key),
    Ablation("a dropped ledger leaves its id", "exile", retirement.keep_no_ids),
    Ablation("retired ids are durable", "exile", retirement.keep_ids_in_memory, "", _power),
    Ablation(
        "ids are retired before the ledger goes", "exile", retirement.write_ids_after_the_drop
    ),
    Ablation("a start reads the retired ids", "exile", retirement.start_without_ids, "", _power),
    Ablation(
        "a repair keeps retired ids, or doubts them",
        "exile",
        retirement.forget_ids_in_a_repair,
        "",
        _loss,
    ),
    Ablation("recovery reads fence", "ledger", recovery.read_without_fence, "", _silence),
    Ablation("absence needs Qw − Qa + 1 negatives", "ledger", recovery.believe_one_negative),
    Ablation("an error is not a negative", "ledger", recovery.take_errors_for_absence),
    Ablation(
        "recovery starts in the last fragment", "ledger", recovery.start_below_the_last_fragment
    ),
    Ablation(
        "the fencing read covers every write set",
        "ledger",
        recovery.fence_one_bookie,
        "redundant: every recovery read fences too, and no entry is decided before "
        "Qw − Qa + 1 of its write set have answered one",
        _race,
    ),
    Ablation("LAC is frozen in recovery", "ledger", recovery.let_lac_grow_in_recovery, "", _race),
    Ablation("recovered entries reach Qa", "ledger", recovery.write_back_to_one),
    Ablation(
        "a recovery closes by compare-and-set", "ledger", recovery.close_over_anybody, "", _race
    ),
    Ablation("full quorum closes on all copies", "ledger", recovery.close_with_an_ack_quorum),
    Ablation(
        "a replaced bookie's acks do not count", "ledger", writing.keep_watermarks_of_the_replaced
    ),
    Ablation("nothing is sent before metadata names it", "ledger", writing.send_before_metadata),
    Ablation("LAC stands still during a change", "ledger", writing.ack_during_a_change, "", _churn),
    Ablation(
        "the writer stops when in recovery", "ledger", writing.write_on_in_recovery, "", _churn
    ),
    Ablation("an ack needs Qa copies", "ledger", writing.ack_with_one_less),
    Ablation("a force counts what bookies name", "ledger", writing.believe_a_force, "", _forced),
    Ablation(
        "a ledger is as long as what is confirmed",
        "ledger",
        writing.close_at_the_length_pushed,
        "",
        _starved,
    ),
    Ablation("followers wait for CLOSED", "ledger", writing.take_recovery_for_the_end),
    Ablation("only a proven LAC confirms", "ledger", writing.take_the_highest_entry_for_lac),
    Ablation("numbered entries wait for those before them", "numbered", writing.send_over_a_gap),
    Ablation("an entry id is taken once", "numbered", writing.take_an_id_again),
    Ablation("a take-over recovers two ledgers", "log", logs.fence_only_the_last_ledger),
    Ablation("a segment is drained before the next", "log", logs.write_ahead_of_the_drain),
    Ablation("a take-over is a compare-and-set", "log", logs.install_over_anybody),
    Ablation("a roll is a compare-and-set", "log", logs.roll_over_a_newer_leader),
    Ablation("a reader leaves a segment when CLOSED", "log", writing.take_recovery_for_the_end),
    Ablation("an unknown change is read again", "log", logs.take_unknown_for_failed, "", _expiry),
    Ablation("a new leader knows what was sent", "log", logs.forget_producers),
    Ablation("a full manifest is not rolled", "log", logs.roll_full_manifests),
    Ablation("a gap needs the whole write set", "log", logs.take_what_is_away_for_lost),
    Ablation("a forgotten producer is refused", "log", logs.accept_forgotten_producers),
    Ablation("a forgotten job is refused", "election", logs.accept_forgotten_jobs),
    Ablation("age needs a second clock", "log", clocks.believe_the_wall_clock),
    Ablation("age needs the wall clock, too", "log", clocks.believe_the_clock_of_the_store),
    Ablation(
        "a span in which a clock goes back is lost",
        "log",
        clocks.keep_the_reading_of_a_clock_that_was_wrong,
    ),
    Ablation("a mark waits for the count", "log", clocks.mark_before_the_time_is_counted),
    Ablation("some times are no times", "log", clocks.take_every_time_for_right),
    Ablation("times do not go back in a segment", "log", clocks.begin_a_segment_at_any_time),
    Ablation("retention waits for cursors", "log", logs.forget_cursors),
    Ablation("a conditional append checks the tail", "log", logs.append_at_any_tail),
    Ablation("a seal is in the manifest", "log", logs.say_that_a_log_is_sealed),
    Ablation("a segment is sealed when closed", "log", logs.seal_before_the_ledger_is_closed),
    Ablation("the janitor spares this epoch's ledgers", "log", logs.sweep_young_ledgers),
    Ablation(
        "a spare is kept while it may be listed",
        "log",
        logs.delete_a_spare_that_may_be_listed,
        "rare: a lost answer and an outage in one roll; tests/log/leader/test_roller.py has both",
        _expiry,
    ),
    Ablation("a trim changes the manifest first", "log", logs.delete_before_the_manifest_says_so),
    Ablation(
        "a search skips nothing that comes meanwhile",
        "log",
        logs.look_at_each_segment_as_it_is_then,
        "",
        _slow,
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
        "a linearizable tail asks what is acknowledged",
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
        _expiry,
    ),
    Ablation(
        "a term is a compare-and-set", "election", elections.take_office_over_anybody, "", _away
    ),
    Ablation("a leader knows its own term", "election", elections.forget_the_own_term, "", _expiry),
    Ablation("the successor that was named follows", "election", elections.pass_the_successor_over),
    Ablation(
        "a successor waits for the leader to go",
        "election",
        elections.follow_before_the_leader_is_gone,
    ),
    Ablation(
        "only who leads names a successor",
        "election",
        elections.name_a_successor_over_anybody,
        "",
        _away,
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
    Ablation("a primary has read the log to its end", "service", services.lead_without_reading_on),
    Ablation("a barrier is a record of the log", "service", services.read_what_is_there, "", _away),
    Ablation(
        "a snapshot is there before the log is trimmed",
        "service",
        services.trim_before_the_snapshot,
    ),
    Ablation(
        "a replica ends with who waits for its end",
        "service",
        services.close_for_who_waits_only,
        "",
        _signals,
    ),
    Ablation(
        "a journal whose sync failed is not written again",
        "ledger",
        disks.write_a_journal_again,
        "",
        _failing_syncs,
    ),
    Ablation(
        "an entry log whose sync failed is not written again",
        "ledger",
        disks.write_an_entry_log_again,
        "",
        _failing_syncs,
    ),
    Ablation(
        "a checkpoint whose sync failed is not written again",
        "ledger",
        disks.write_a_checkpoint_again,
        "",
        _failing_syncs,
    ),
    Ablation(
        "a reserve lets a bookie start on a full disk",
        "ledger",
        disks.start_without_a_reserve,
        "",
        _full,
    ),
    Ablation(
        "a spare lets a bookie start on a full disk",
        "ledger",
        disks.start_without_a_spare,
        "",
        _full,
    ),
    Ablation(
        "a full disk takes no entries that a start cannot write",
        "ledger",
        disks.take_entries_on_a_full_disk,
        "",
        _full,
    ),
    Ablation(
        "each entry of a batch is on enough bookies",
        "ledger",
        recovery.look_at_the_first_of_a_batch,
        "rare: the bookies that refuse a write-back mostly hold the entries already; "
        "tests/ledger/test_write_back.py has it",
        _starved,
    ),
    Ablation(
        "a flush that met a full disk forgets nothing",
        "ledger",
        bookies.forget_what_a_full_disk_refused,
        "",
        _full,
    ),
    Ablation(
        "a candidate takes office while its session lasts",
        "election",
        elections.take_office_after_the_session,
        "",
        _away,
    ),
    Ablation(
        "a snapshot that was overtaken is not installed",
        "service",
        services.install_any_snapshot,
        "rare: a leader that learns of its end stops its snapshot; "
        "tests/service/test_order.py has it",
        _away,
    ),
    Ablation(
        "a replica applies the next record only",
        "service",
        services.apply_any_record,
        "redundant: a reader is asked for the next record and gives no other; "
        "tests/service/test_order.py has it",
    ),
    Ablation(
        "a repair that was cut short is done again",
        "ledger",
        bookies.start_after_half_a_repair,
        "",
        _loss,
    ),
    *RESTORE,
)
