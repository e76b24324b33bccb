"""A whole cluster on this machine, for tutorials, tests and trying faults."""

from quire.cluster.local import BookieDeath, LocalCluster
from quire.cluster.process import ProcessState, Ready

__all__ = ["BookieDeath", "LocalCluster", "ProcessState", "Ready"]
