"""How the bookies of a cluster are, whether the cluster is healthy, and an operator's wishes.

Read `state.py` (the state of one bookie) and `verdict.py` (the health of the cluster), which are
pure; then `facts.py` (gathering), `naming.py` (which ledgers name a bookie) and `wishes.py`
(changing a standing). For healing: `index.py` (which ledger names which bookies) and `urgency.py`
(which ledgers need copies elsewhere), which are pure.

May import: quire.ledger, quire.metastore, values. Never: quire.storage, quire.log.
"""
