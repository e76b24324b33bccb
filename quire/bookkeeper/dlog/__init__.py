"""Logs of Apache DistributedLog, read from their ledgers without its library.

A log is a list of segments in ZooKeeper. Each segment is a ledger, and each entry of it holds
records. Nothing here writes, fences or recovers, so the writer of a log notices no reader.

Read `names.py` (logs and DLSNs), `namespace.py` (where a namespace keeps its ledgers),
`segments.py` (the list of segments), `records.py` (the contents of an entry), and `log.py`, the
reader. All but the last are pure.

Not here: following a log, subscriptions, and all that docs/bookkeeper.md names as refused.

May import: values, quire.bookkeeper, quire.metastore; `log.py` also quire.client_ledgers.
"""
