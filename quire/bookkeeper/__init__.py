"""Ledgers on Apache BookKeeper: quire's ledger code over bookies and records of that system.

The frame, the digests, the keys, write sets and coverage are the same in both systems, so writers,
readers and recovery run unchanged. The differences stand here, in implementations of the two ports
of the ledger code: `ApacheBookie` (apache_bookie.py) is a `Bookie`, `ApacheRecords` (records.py)
are `LedgerRecords`. docs/bookkeeper.md has the promises by system.

Read `protobuf.py` and `status.py`, then `wire3.py` and `wire2.py` (the two protocols of its
bookies), `message_stream.py`, `add_bundles.py`, `shared_adds.py`, `connection.py`,
`batch_connection.py`, `single_reads.py`, `batch_reads.py` and `apache_bookie.py`;
`text_format.py`, `metadata_format.py`, `layouts.py`, `registration.py` (its metadata in ZooKeeper),
`ledger_ids.py`, `records.py` and `registrations.py`; `uri.py`, `tls.py`, `read_only.py` and
`cluster.py`.
`pieces.py` are parts of logs of other systems; `pulsar/` reads topics of Pulsar, `dlog/` logs of
DistributedLog.

May import: values, quire.ledger, quire.metastore, quire.wire.adds, quire.wire.varint.
"""
