"""Restoring the lost data of a bookie, from the ledgers' metadata and from other bookies' copies.

The one room that knows the records of ledgers and the disk of a bookie. Read `holdings.py` (pure:
the entries that a bookie must hold), `census.py` (the ledgers that it may have had), `directory.py`
(salvages a stopped bookie), `copies.py` (serves a running one), `reclaim.py` (lost cookies).

May import: quire.ledger, quire.metastore, quire.storage, values.
"""
