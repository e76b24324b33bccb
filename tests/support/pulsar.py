"""Entries of topics that Apache Pulsar's own libraries made, and what they hold.

`tests/interop/Topics.java` prints `tests/bookkeeper/pulsar_entries.txt`.
"""

from __future__ import annotations

from pathlib import Path

FILE = Path(__file__).parents[1] / "bookkeeper" / "pulsar_entries.txt"
ENTRIES = {
    name: bytes.fromhex(data) for name, data in map(str.split, FILE.read_text().splitlines())
}
AGAIN = b"again " * 100
PAYLOADS = [b"hello", None, *[AGAIN] * 4, b"zero", b"one", b"two", AGAIN, b"counted"]
"""The payloads of the messages of all entries, in order: the marker is none, the chunks are one."""
