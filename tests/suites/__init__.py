"""Suites of other projects, run unchanged against quire. `python -m tests.suites`."""
