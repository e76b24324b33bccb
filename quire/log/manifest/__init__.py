"""The log's compare-and-set record: segments, epoch, trim point, jobs, tiers, options.

Read `schema.py` (the fields), `manifest.py` (the value and its changes, with the invariants C1-C10
of docs/protocol.md), `segment.py`, `codec.py` (its bytes), `page.py`, `page_tree.py` (old segments
in pages), `pages_at_hand.py` (questions that need pages), `record.py` (edit by compare-and-set),
`watching.py` (follow it), `known.py` (many of them), `holder.py` (the process that leads),
`options.py` and `live_options.py` (stored options), `capacity.py` (how full it is), `ages.py` and
`clocks.py` (how much time a log counts), `times.py` (which times of records are believed),
`jobs.py`, `jobs_record.py`, `cold_files.py`, `recovery.py` (end the open segments), and `info.py`
(what users see).

May import: records. Not here: when a change is made (leader, maintenance).
"""
