"""Clusters for the tests of applications: in memory (no processes, milliseconds) or as processes.

    MemoryCluster      bookies and metadata of this process; faults by method calls
    ProcessCluster     real bookie processes, the same names
    plugin             fixtures for pytest: `pytest_plugins = ["quire.testing.plugin"]`

Read `cluster.py`, then `plugin.py`. `bookie.py` is the reference implementation of the `Bookie`
port. May import everything but `quire.spark` and `quire.cli`. docs/testing-applications.md is the
page for users.
"""

from quire.testing.cluster import MemoryCluster
from quire.testing.processes import ProcessCluster

__all__ = ["MemoryCluster", "ProcessCluster"]
