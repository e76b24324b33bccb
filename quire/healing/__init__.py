"""How the bookies of a cluster are, whether the cluster is healthy, and an operator's wishes.

Read `state.py` (the state of one bookie) and `verdict.py` (the health of the cluster), which are
pure, as is `rolling.py` (whether the next bookie may be stopped); then `facts.py` (gathering),
`naming.py` (which ledgers name a bookie) and `wishes.py` (changing a standing).

A cluster heals itself by an auditor. Its pure parts are `index.py` (which ledger names which
bookies), `urgency.py` (which ledgers need copies elsewhere), `brakes.py` (which bookies are lost,
and when nothing may move), `reasons.py` (why a bookie is asked), and the records `switch.py` and
`summary.py`. Then `survey.py` (keeps the index), `requests.py`, `holes.py`, `domains.py` (copies in
too few domains), `spread.py` (moves into more), `audit.py` (a round) and `auditor.py` (the
election).

May import: quire.ledger, quire.metastore, values; the auditor also quire.repair, quire.election.
Never: quire.storage, quire.log.
"""
