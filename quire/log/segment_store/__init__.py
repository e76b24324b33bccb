"""Where a log's segments lie: a narrow port, and quire's ledgers behind it.

Read `port.py` (create, append, seal, read, delete one segment), then `ledgers.py` (the same over a
`LedgerCatalog`).

May import: quire.ledger, values and ports. Not here: which segments a log has (quire/log/manifest),
files of tiers (quire/log/cold).
"""
