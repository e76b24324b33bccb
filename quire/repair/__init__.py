"""Restoring the lost data of a bookie, from the ledgers' metadata and from other bookies' copies.

The one room that knows the records of ledgers and the disk of a bookie. Read `holdings.py` (pure:
the entries that a bookie must hold), `census.py` (the ledgers that it may have had), `directory.py`
(salvages a stopped bookie), `copies.py` (serves a running one), `reclaim.py` (lost cookies). For a
bookie that is lost for good: `assignments.py` (pure: the copies that a bookie is asked to make),
`plan.py` (pure: which bookie is asked for which), `departure.py` (pure: whether a bookie can
leave), `orders.py` (assignments in the store), `healing.py` (plans, asks and waits),
`superfluous.py` (copies that other bookies make superfluous).

May import: quire.ledger, quire.metastore, quire.storage, values.
"""
