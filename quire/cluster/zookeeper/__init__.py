"""ZooKeeper servers of this machine, for clusters that need no other installation.

Read `server.py` (one process), `ensemble.py` (several), `java.py` (where Java and the jars are),
`local.py` (the ensemble of a local cluster).

May import: quire.metastore, values.
"""
