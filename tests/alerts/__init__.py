"""Each alert fires once, by a drill: programs are driven into a state, their real metrics are
scraped, and the rules of deploy/prometheus/alerts.yml are evaluated on them.

`series.py` keeps scraped values, `promql.py` evaluates expressions on them, `rules.py` has the
rules and their state, `monitor.py` scrapes. The drills are in `bookie_drills.py`,
`healing_drills.py`, `client_drills.py` and `process_drills.py`; `table.py` says which drill makes
which alert fire. `python -m tests.alerts` plays them.
"""
