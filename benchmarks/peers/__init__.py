"""quire beside its peers: one table of workloads, rounds in turn, servers from published files.

Order of reading: `workloads` has the table, `peer` the port of all peers, `machine` the counters
of processes and disks. `own`, `bookkeeper` and `kafka` are peers. So are `postgresql`, `redis`,
`etcd` and `nats`, each a log of `log_peer` on servers that `programs` finds and `processes` runs;
`others` has the list of them. `report` has the tables, the record in JSON and the plot, and
`__main__` the command.
"""
