"""Safeguards of a bookie and its disk."""

from __future__ import annotations

from typing import Final

from tests.sim.ablations import (
    bookies,
    disks,
    mixes,
    retirement,
    wishing,
)
from tests.sim.ablations.patch import WITHOUT_END, Ablation

FULL_START: Final = "tests/storage/entries/test_full_start.py has it"
ROLL: Final = "rare: a disk must fill up between a roll and the next segment, with a full segment; "
STARTS: Final = "rare: a bookie must take full segments between several starts on one full disk; "

BOOKIE: Final = (
    Ablation("a bookie refuses adds to a fenced ledger", "ledger", bookies.ignore_fence),
    Ablation(
        "each run that is taken in one step is compared with the fence",
        "ledger",
        bookies.take_runs_without_a_look_at_the_fence,
    ),
    Ablation(
        "a fence is durable before it is answered",
        "ledger",
        bookies.answer_before_fence_is_durable,
    ),
    Ablation("an entry is never replaced", "ledger", bookies.take_other_bytes),
    Ablation("no ledger is begun before its id", "ledger", bookies.begin_any_ledger),
    Ablation("a fence survives a restart", "ledger", bookies.forget_fences_at_restart),
    Ablation("an add is durable before it is acked", "ledger", bookies.ack_before_sync),
    Ablation("directories are synced", "ledger", bookies.never_sync_directories),
    Ablation(
        "journal records have checksums",
        "ledger",
        bookies.replay_without_checksums,
        "",
        mixes.old_rot,
    ),
    Ablation(
        "journal records are contiguous",
        "ledger",
        bookies.replay_past_gaps,
        "redundant: replay stops at the first bad record, and a segment's identity is new in each "
        "of its lives, so no older record can stand where the next one is expected",
        mixes.power,
    ),
    Ablation(
        "a damaged journal stops the start",
        "ledger",
        bookies.start_on_a_damaged_journal,
        "",
        mixes.rot,
    ),
    Ablation(
        "a journal that was cut stops the start",
        "ledger",
        bookies.start_on_a_journal_that_was_cut,
        "",
        mixes.cut_short,
    ),
    Ablation("damage is not absence", "ledger", bookies.take_damage_for_absence, "", mixes.rot),
    Ablation(
        "an error of the metadata store deletes nothing", "ledger", bookies.delete_upon_an_error
    ),
    Ablation(
        "files go after the checkpoint that lists them", "log", bookies.remove_before_the_checkpoint
    ),
    Ablation(
        "compaction keeps the states of ledgers",
        "ledger",
        bookies.compact_without_states,
        "rare: a fence that is forgotten must be missed before the ledger is closed; "
        "tests/storage/maintenance/test_compaction.py has it",
    ),
    Ablation("limbo answers unknown", "ledger", bookies.deny_in_limbo, "", mixes.loss),
    Ablation(
        "a repair fences the ledgers that it doubts",
        "ledger",
        bookies.repair_without_fences,
        "rare: mostly the others of a write set stop the old writer before its bookie is repaired; "
        "tests/storage/offline/test_salvage.py has it",
        mixes.loss,
    ),
    Ablation(
        "a repair doubts ledgers that do not name the bookie",
        "ledger",
        bookies.doubt_only_what_is_named,
        "rare: see above; tests/storage/offline/test_salvage.py has it",
        mixes.loss,
    ),
    Ablation(
        "a ledger leaves limbo when whole", "ledger", bookies.leave_limbo_at_once, "", mixes.loss
    ),
    Ablation(
        "a damaged chunk is forgotten when its entries are back",
        "ledger",
        bookies.forget_damage_at_once,
        "",
        mixes.rot,
    ),
    Ablation("a ledger has one key", "ledger", bookies.take_any_key),
    Ablation("a dropped ledger leaves its id", "exile", retirement.keep_no_ids),
    Ablation("retired ids are durable", "exile", retirement.keep_ids_in_memory, "", mixes.power),
    Ablation(
        "ids are retired before the ledger goes", "exile", retirement.write_ids_after_the_drop
    ),
    Ablation(
        "a start reads the retired ids", "exile", retirement.start_without_ids, "", mixes.power
    ),
    Ablation(
        "a repair keeps retired ids, or doubts them",
        "exile",
        retirement.forget_ids_in_a_repair,
        "",
        mixes.loss,
    ),
    Ablation(
        "a journal is not written again after a failed sync",
        "ledger",
        disks.write_a_journal_again,
        "",
        mixes.failing_syncs,
    ),
    Ablation(
        "an entry log is not written again after a failed sync",
        "ledger",
        disks.write_an_entry_log_again,
        "",
        mixes.failing_syncs,
    ),
    Ablation(
        "a checkpoint is not written again after a failed sync",
        "ledger",
        disks.write_a_checkpoint_again,
        "",
        mixes.failing_syncs,
    ),
    Ablation(
        "a reserve lets a bookie start on a full disk",
        "ledger",
        disks.start_without_a_reserve,
        "",
        mixes.full,
    ),
    Ablation(
        "a spare lets a bookie start on a full disk",
        "ledger",
        disks.start_without_a_spare,
        ROLL + FULL_START,
        mixes.full,
    ),
    Ablation(
        "a full disk takes no entries that a start cannot write",
        "ledger",
        disks.take_entries_on_a_full_disk,
        STARTS + FULL_START,
        mixes.full,
    ),
    Ablation(
        "a flush that met a full disk forgets nothing",
        "ledger",
        bookies.forget_what_a_full_disk_refused,
        "",
        mixes.full,
    ),
    Ablation(
        "a repair that was cut short is done again",
        "ledger",
        bookies.start_after_half_a_repair,
        "",
        mixes.loss,
    ),
    Ablation("one disk has one process", "ledger", disks.lock_no_directory, "", mixes.crowded),
    Ablation(
        "damage is told of the entry asked for",
        "gap",
        bookies.tell_of_the_chunk,
        shows=WITHOUT_END,
    ),
    Ablation(
        "a bookie off duty takes no entries",
        "ledger",
        wishing.take_entries_off_duty,
        "",
        mixes.wishes,
    ),
    Ablation(
        "a bookie off duty takes part in recoveries",
        "ledger",
        wishing.refuse_recoveries_off_duty,
        "",
        mixes.wishes,
    ),
    Ablation("a bookie off duty is read", "ledger", wishing.deny_off_duty, "", mixes.wishes),
    Ablation(
        "an away ends by itself",
        "ledger",
        wishing.never_come_back,
        "",
        mixes.wishes,
        shows=WITHOUT_END,
    ),
)
