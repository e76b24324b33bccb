"""A bookie's directory while no process serves it: check, dump, salvage.

Read `check.py`, `dump.py`, `salvage.py` (keep the sound part of a damaged bookie).

May import: maintenance, identity, entries, journal, disk.
"""
