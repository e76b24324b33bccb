"""Writing a log: takeover, appends, rolls. One leader at a time, by fencing and compare-and-set.

Read `takeover.py` (how an epoch begins), `log.py` (the handle), `life.py` (its states),
`pipeline.py` (from a record to its ack), `accumulator.py` (records into batches),
`flow_control.py` (bounds), `segments.py` (its chain in the manifest), `roller.py` (when a new one
begins), `producer_state.py` (numbers after a takeover), `conditions.py` (conditional appends),
`intake.py` (records with keys and headers), `groups.py` (several as one), `tables.py` (Arrow
tables), `outcome.py` (how an append ends), `traced.py` (records that carry a trace), `failure.py`,
`numbering.py`, `resting.py` (a handle without use gives its parts back), `patrol.py` (one watch for
all that rest).

May import: every other room of the log but the directory.
"""
