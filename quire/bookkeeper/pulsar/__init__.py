"""Topics of Apache Pulsar, read from their ledgers without a broker.

A topic is a managed ledger: a record in ZooKeeper lists its ledgers, and each entry of these holds
a message, a batch of messages, or a chunk of one. Nothing here writes, fences or recovers, so a
broker that owns the topic notices no reader.

Read `names.py` (topics and message ids), `managed_ledger.py` (the list of ledgers),
`compression.py`, `messages.py` (the contents of an entry), `chunks.py`, which are pure;
`ledgers.py`, `topic.py`, the reader, and `pieces.py` with `look_back.py` for several readers of one
topic.

Not here: schemas, cursors, compacted topics, and all that docs/bookkeeper.md names as refused.

May import: values, quire.bookkeeper; the readers also quire.client_ledgers and quire.ledger.reader.
"""
