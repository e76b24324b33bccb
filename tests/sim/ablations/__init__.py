"""Removing safeguards one by one, to prove that the checkers bite.

Each ablation patches one safeguard of production code away, on the test side, and runs seeds until
one fails. "No violation in N seeds" means something only because of this:

    python -m tests.sim.ablations [--seeds 3000] [--only NAME]

The patches are in files by what they patch (bookies.py, recovery.py …), the tables in *_table.py
and together in catalog.py, mixes of faults in mixes.py, the hunt in hunt.py.
"""
