"""A bookie's background work: flushing, garbage, compaction, scrub, repair from other bookies.

Read `flushing.py`, `deletions.py` and `garbage.py` (ledgers that were deleted), `disowning.py`
(ledgers that other bookies hold), `compaction.py`, `scrub.py` (verify all entries periodically),
`self_repair.py` (after lost files), `read_repair.py` (after a damaged read),
`pace.py` (how fast copies are made beside appends), `replicas_port.py`
(entries of other bookies).

May import: identity, entries, journal, disk. Nothing here runs in the way of a request.
"""
