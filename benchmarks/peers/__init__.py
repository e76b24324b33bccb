"""quire beside its peers: one table of workloads, rounds in turn, servers from published files.

In which order to read: `workloads` has the table, `peer` what each peer does, `machine` what is
measured beside it. `own`, `bookkeeper` and `kafka` are the peers; `report` has the table, the
record in JSON and the plot, and `__main__` the command.
"""
