"""Entries after the journal: cache, entry logs, ledgers' states, checkpoints.

Read `ledger_storage.py` (the room's face), `write_cache.py`, `entry_log.py` (bytes of a file),
`entry_files.py` and `file_set.py` (the files), `entry_reads.py` and `listing.py` (lookups),
`read_cache.py`, `stored_run.py`, `ledger_state.py` (fence and key), `checkpoint.py`,
`retired.py` with `retired_file.py` (ids of dropped ledgers), `doubtful.py` (limbo), `damage.py`,
`memory_limiter.py`, `subjects.py` (changes to apply), `run_path.py` and `entry_memory.py` (where
they are applied), `extents.py`, `formatting.py`, `reserve.py` (space for a start).

May import: journal, disk.
"""
