"""Plausible edits of production code, each with the tests that must fail.

An ablation (tests/sim/ablations) removes a safeguard in the simulator. An edit here changes one
line of a file, and targeted tests run. Each edit survived the whole suite once.

    python -m tests.mutations [--only NAME]

Edits are made in a copy of the repository: the working tree stays as it is.
"""
