"""OpenMessaging Benchmark's Kafka driver, unchanged, before Kafka and before a gateway of quire.

Order of reading: `workloads` has the files that the benchmark is given, `systems` the servers,
`runs` starts the benchmark and reads its results, `report` has the table and the record in JSON,
and `__main__` the command.
"""
