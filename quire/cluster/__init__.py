"""A whole cluster on this machine, for tutorials, tests and trying faults."""

from quire.cluster.local import LocalCluster, ServerDeath
from quire.cluster.process import ProcessState, Ready

__all__ = ["LocalCluster", "ProcessState", "Ready", "ServerDeath"]
