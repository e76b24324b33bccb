"""quire beside its peers: one table of workloads, rounds in turn, servers from published files.

Order of reading: `workloads` has the table, `peer` the port of all peers, `machine` the counters
of processes and disks. `own`, `bookkeeper` and `kafka` are the peers; `report` has the table, the
record in JSON and the plot, and `__main__` the command.
"""
