"""An Apache Iceberg table that has the records of a log, for engines that know nothing of quire.

    iceberg.py   the table: what it has, rows added, rows removed; each in one commit. Blocking
    values.py    the place of a table, and the result of a run. Pure
    update.py    brings a table up to date with its log

Read `update.py` first: it says why every record is in the table once. Needs pyiceberg and pyarrow
(`quire[iceberg]`), so these modules are imported when they are used. May import `quire.client`,
`quire.columns` and `quire.log`.
"""
