"""Entries and records of logs that Apache DistributedLog's own library made.

`tests/interop/Logs.java` prints `tests/bookkeeper/dlog_entries.txt`.
"""

from __future__ import annotations

from pathlib import Path

FILE = Path(__file__).parents[1] / "bookkeeper" / "dlog_entries.txt"
GOLDEN = {name: bytes.fromhex(data) for name, data in map(str.split, FILE.read_text().splitlines())}
AGAIN = b"again " * 50
THREE = [b"one", AGAIN]
"""The payloads of the entries `bare`, `plain` and `lz4`; the record between is for control."""
SETS = [b"a", b"", AGAIN] * 2
"""The payloads of the entry `sets`."""
