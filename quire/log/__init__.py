"""A log: an ordered list of ledgers that survives any number of leaders.

    segment_store < records < manifest < cold < reading < maintenance < leader < directory.py

A room imports only rooms to its left; tests/test_structure.py holds that. Begin with
`records/position.py`, then `manifest/manifest.py`, `leader/takeover.py`, `reading/reader.py`.
`directory.py` puts the rooms together for a client.

May import: quire.ledger, quire.metastore, values and ports. Not here: elections, processes, bytes
on disk.
"""
