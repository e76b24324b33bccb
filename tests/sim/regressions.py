"""Seeds that once found a defect, replayed in every test run.

Schedules drift with the code, so a seed stops meaning what it meant; each defect also has a test of
its own. Kept because they cost little and have been unlucky before.
"""

from __future__ import annotations

from typing import Final

SEEDS: Final[tuple[tuple[int, str, str], ...]] = (
    (18, "ledger", "an empty closed ledger was read: division by zero"),
    (86, "ledger", "a follower whose metadata was refreshed while it read denied an entry"),
    (13292, "ledger", "a repaired bookie was taken to owe what it never got of a younger ledger"),
    (27, "ledger", "a second power cut during a restart left a journal that looked broken"),
    (2, "election", "a log forgot its producers when it adopted ledgers"),
    (24279, "ledger", "a bookie believed its first checkpoint after the later one was lost"),
    (52169, "ledger", "a full quorum was never reached beside a bookie with a damaged copy"),
    (55265, "election", "a bookie stayed registered as read-only after a lost answer"),
    (24205, "election", "an adoption whose parts were trimmed could not be repeated"),
    (40555, "service", "a leader whose ledger was deleted before it knew ended with an error"),
    (43190, "log", "an answer that a follower had not taken yet was taken for a forgotten error"),
    (1, "service", "a replica that had failed to begin to lead never answered again"),
    (87215, "service", "a replica met a log trimmed to its end and waited for the next command"),
    (108647, "ledger", "a bookie that put damage away was taken to owe what is not its own"),
    (34030, "log", "a bookie that dropped a deleted ledger was taken to owe its LAC"),
    (34873, "ledger", "what was repaired while it was looked at was taken to be lacking"),
    (113745, "election", "a log whose appends had failed was closed as if all were well"),
    (11255, "service", "a run waited without end for an ack that the store's weather forbade"),
    (316905, "election", "an adopter waited without end for an ack that nobody got"),
    (202410, "deletion", "a dead client's last change retired a log when nobody looked any more"),
    (5, "log", "a reader that began at a time was given older records that were under way"),
    (813136, "log", "a sealed log was taken to keep a record, and was trimmed to its end"),
    (830012, "log", "a reader made at the end skipped what came before it was used"),
    (55, "service", "a replica read a trimmed log from its beginning and missed what was gone"),
    (12350, "deletion", "a file of a log that was gone was taken for one of the next log"),
    (12799, "restored", "a ledger created again after the adoption was taken to be deleted"),
    (2843, "healing", "a bookie that was lost after the last healing was taken to be healed"),
    (1007, "healed numbered", "a bookie that had not registered yet was taken to be there"),
    (2348, "healed ledger", "a place moved out of a zone whose other bookie had got no entries"),
    (0, "gap", "a reader never passed the second lost entry of a chunk"),
    (5204, "healed ledger", "a completion that gave a place back to a holder was refused"),
    (7746, "ledger", "a completion that gave a place to a holder was refused"),
    (7183, "healing", "a bookie that came late was taken to be missing since it left"),
    (226, "log", "a small read asked a bookie that was not registered, again and again"),
    (103, "healing", "a hole whose request ended unseen stayed in an auditor's list"),
    (11320, "gap", "a log that was closed raised an error, as its list of the deleted was not"),
    (
        90409,
        "exile",
        "a refusal that a stream was about to look at was taken for a forgotten error",
    ),
    (
        201583,
        "healing",
        "a repaired bookie was awaited to be sure of a ledger that it owes no entry of",
    ),
    (4283, "healing", "a ledger that was to be kept after all looked as if it had no entries"),
)
"""(seed, workload, what it found)."""
