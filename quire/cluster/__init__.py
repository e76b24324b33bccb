"""A whole cluster on this machine, for tutorials, tests and trying faults.

Read `local.py` (the cluster), `process.py` (one bookie as a child process), `certificates.py` (its
TLS), and the package `zookeeper` for its servers.

May import: quire.client, quire.metastore, quire.storage, the wire's certificates, values.
"""

from quire.cluster.local import LocalCluster, ServerDeath
from quire.cluster.process import ProcessState, Ready

__all__ = ["LocalCluster", "ProcessState", "Ready", "ServerDeath"]
