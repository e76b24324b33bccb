"""Reading a log: from a start, over segments, to its end; never disturbs the writer.

Read `reader.py` (the iterator), `segment_reader.py` with `source.py` (one segment, from its ledger
or its file), `ahead.py` (segments opened ahead), `start.py`, `seek.py` and `search.py` (where to
begin), `gaps.py` (records that are lost), `manifest_reader.py` (the list of segments as it grows),
`snapshot.py` with `bounds.py`, `span.py` and `spans.py` (a frozen view, cut for parallel readers),
`ends.py` (where many logs end).

May import: cold, manifest, records. Never: leader, maintenance.
"""
