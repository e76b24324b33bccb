"""The sequential, synced file to which a bookie writes before it acknowledges.

Read `record.py` (bytes of a segment, and the meaning of a bad record), `segments.py` (files),
`journal.py` and `queue.py` (group commit), `replay.py` (after a start),
`options.py` (every knob of a bookie).

May import: disk.
"""
