"""Port 3, the files of one bookie, and its real implementation.

Read `port.py` (the law V1-V4), `local.py` with `local_file.py`, `direct_io.py` and `threads.py`
(the real disk), `blocks.py` (blocks and checksums), `state_file.py` (small files replaced as a
whole), `partial_read.py` (the sound blocks beside a bad sector), `renewal.py` (names that a failed
sync may have lost).

May import: values. Imported by every other room of the storage.
"""
