"""Changes of a log beside its leader: trim, retention, deletion, offload, ingest, cursors, orphans.

Read `trimming.py`, `retention.py` (which segments are old enough), `doomed.py` (deletes ledgers and
files that left), `deletion.py`, `page_sweep.py` (pages that no manifest names), `sweeping.py`,
`orphans.py` (ledgers that no log lists), `offload.py` (segments into files), `ingest.py` (ledgers
written elsewhere), `parts.py` (how they are written), `job_info.py` (how jobs are shown),
`cursors.py`, `cursor.py`, `cursor_record.py`, `advancing.py` (places of consumers).

May import: reading, cold, manifest, records. Never: leader. Each change is a compare-and-set.
"""
