"""Rights: the actions that an identity may carry out on logs and ledgers.

Read `roles.py` (actions, and roles as sets of them), `scopes.py` (the subject of a call, and the
reach of a rule), `table.py` (rules, and their record), `decide.py` (the decision), `lockout.py`
(accidents of a change), `calls.py` (the action of each call), then the driving modules: `stored.py`
(change by compare-and-set), `watch.py` (the newest table), `ledger_logs.py` (the log of a ledger),
`guard.py` (the question of the doors).

May import: values, the metadata store, identities of the wire; ledger_logs.py also `ledger`.
Reasons: docs/decisions/0036-rights.md.
"""
