"""What an operator does with a metadata store: back it up, put it back, adopt it, check it.

    archive.py    the bytes of a backup file (docs/formats.md)
    backup.py     reads a living store into a file, manifests before the ledgers that they name
    logs.py       reads a manifest with its pages and jobs, for the backup
    restore.py    writes a file into an empty store, and begins a new incarnation
    adopt.py      lets a store count again: lifts the counter of ids, then says so
    check.py      compares every ledger with the entries that bookies hold
    upgrade.py    raises the feature level, once all registered programs speak it
    recordless.py finds what bookies hold of ledgers that the store does not know

Read them in this order. What an incarnation is: docs/protocol.md, I1.

May import: quire.metastore, quire.ledger, quire.log, values. Only the command line imports it.
"""
